{{/* The Deployment of a pool's workers: call with (list $ pool values). No replicas unless they are asked for. */}}
{{- define "noetl.worker" -}}
{{- $root := index . 0 -}}{{- $pool := index . 1 -}}{{- $own := index . 2 -}}
{{- $name := printf "%s-worker-%s" (include "noetl.fullname" $root) $pool -}}
{{- if gt (len $name) 63 -}}
{{- fail (printf "workerPools.%s: the name of its Deployment, %s, is over 63 characters: a shorter pool or fullnameOverride" $pool $name) -}}
{{- end -}}
{{- $env := dict
  "NOETL_POOL" $pool
  "NOETL_SLOTS" (toString $own.slots)
  "NOETL_PROVIDES" (join "," $own.provides)
  "NOETL_TOOLS_DISABLED" (join "," $own.toolsDisabled)
  "NOETL_PYTHON_PROCESSES" (toString $own.pythonProcesses) -}}
{{- $volumes := deepCopy $own.extraVolumes -}}
{{- $mounts := deepCopy $own.extraVolumeMounts -}}
{{- if $own.scriptsConfigMap -}}
{{- $_ := set $env "NOETL_SCRIPTS" "/etc/noetl/scripts" -}}
{{- $volumes = append $volumes (dict "name" "scripts" "configMap" (dict "name" $own.scriptsConfigMap)) -}}
{{- $mounts = append $mounts (dict "name" "scripts" "mountPath" "/etc/noetl/scripts" "readOnly" true) -}}
{{- end -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "noetl.labels" (list $root "worker") | nindent 4 }}
    noetl.io/pool: {{ $pool | quote }}
spec:
  {{- if not (kindIs "invalid" $own.replicas) }}
  replicas: {{ $own.replicas }}
  {{- end }}
  strategy: { type: RollingUpdate, rollingUpdate: { maxSurge: 25%, maxUnavailable: 0 } }
  selector:
    matchLabels:
      {{- include "noetl.selector" (list $root "worker") | nindent 6 }}
      noetl.io/pool: {{ $pool | quote }}
  template:
    metadata:
      labels:
        {{- include "noetl.labels" (list $root "worker") | nindent 8 }}
        noetl.io/pool: {{ $pool | quote }}
        {{- with $own.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $own.podAnnotations }}
      annotations: {{ toJson . }}
      {{- end }}
    spec:
      {{- $account := default (printf "%s-services" (include "noetl.fullname" $root)) $own.serviceAccountName }}
      {{- include "noetl.pod" (dict
        "root" $root "component" "worker" "module" "worker" "user" (printf "worker_%s" $pool) "own" $own "env" $env
        "token" $own.automountServiceAccountToken "account" $account "tmp" $own.tmpSize
        "volumes" (ternary (toYaml $volumes) "" (gt (len $volumes) 0)) "mounts" (ternary (toYaml $mounts) "" (gt (len $mounts) 0))
      ) | nindent 6 }}
{{- end -}}
