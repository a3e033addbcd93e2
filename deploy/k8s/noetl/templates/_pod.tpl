{{/*
The parts of every Pod. No secret is in an environment: who one is stands in a file, as does a DSN.
*/}}

{{/* The key of a user's file, by the mode: call with (list $ user). */}}
{{- define "noetl.userKey" -}}
{{- $root := index . 0 -}}
{{- $mode := $root.Values.nats.auth.mode -}}
{{ ternary "noetl" (index . 1) (eq $mode "shared") }}.{{ ternary "creds" "nk" (eq $mode "jwt") }}
{{- end -}}

{{/* Environment of all that talk to the broker, as a dict in JSON. */}}
{{- define "noetl.env" -}}
{{- $root := . -}}{{- $v := $root.Values -}}
{{- $env := dict
  "NOETL_NATS_URL" (include "noetl.natsUrl" $root)
  "NOETL_PARTITIONS" (toString $v.partitions)
  "NOETL_REPLICAS" (toString $v.nats.replicas)
  "NOETL_POOLS" (include "noetl.poolNames" $root)
  "NOETL_MAX_SKEW_S" (toString $v.maxSkewSeconds)
  "NOETL_LOG_LEVEL" $v.logLevel -}}
{{- $file := ternary "NOETL_NATS_CREDS_FILE" "NOETL_NATS_NKEY_FILE" (eq $v.nats.auth.mode "jwt") -}}
{{- $_ := set $env $file (printf "/run/noetl/login/user.%s" (ternary "creds" "nk" (eq $v.nats.auth.mode "jwt"))) -}}
{{- with $v.nats.placement }}{{- $_ := set $env "NOETL_PLACEMENT" (join "," .) -}}{{- end -}}
{{- if $v.nats.maxBytes -}}
{{- $sizes := list -}}
{{- range $stream := keys $v.nats.maxBytes | sortAlpha -}}
{{- $sizes = append $sizes (printf "%s=%s" $stream (index $v.nats.maxBytes $stream)) -}}
{{- end -}}
{{- $_ := set $env "NOETL_MAX_BYTES" (join "," $sizes) -}}
{{- end -}}
{{- if $v.retention -}}
{{- $kept := list -}}
{{- range $what := keys $v.retention | sortAlpha -}}
{{- $kept = append $kept (printf "%s=%s" $what (index $v.retention $what)) -}}
{{- end -}}
{{- $_ := set $env "NOETL_RETENTION" (join "," $kept) -}}
{{- end -}}
{{- if $v.nats.tls.caSecret }}{{- $_ := set $env "NOETL_NATS_CA_FILE" "/run/noetl/ca/ca.crt" -}}{{- end -}}
{{- if $v.nats.tls.clientSecret -}}
{{- $_ := set $env "NOETL_NATS_CERT_FILE" "/run/noetl/tls/tls.crt" -}}
{{- $_ := set $env "NOETL_NATS_KEY_FILE" "/run/noetl/tls/tls.key" -}}
{{- end -}}
{{- if $v.nats.tls.handshakeFirst }}{{- $_ := set $env "NOETL_NATS_TLS_FIRST" "true" -}}{{- end -}}
{{- toJson $env -}}
{{- end -}}

{{/* A dict of variables as the list a container has: each one once, in order of their names. */}}
{{- define "noetl.envList" -}}
{{- $env := . -}}
{{- range $name := keys $env | sortAlpha }}
{{- $value := index $env $name }}
{{- if kindIs "map" $value }}
- {{ merge (dict "name" $name) $value | toJson }}
{{- else }}
- { name: {{ $name }}, value: {{ toString $value | quote }} }
{{- end }}
{{- end }}
{{- end -}}

{{/* Files of the broker's login: call with (list $ user). */}}
{{- define "noetl.loginVolumes" -}}
{{- $root := index . 0 -}}{{- $user := index . 1 -}}{{- $v := $root.Values -}}
{{- if and $v.nats.auth.existingSecrets (not $v.nats.auth.existingSecret) (not (hasKey $v.nats.auth.existingSecrets $user)) -}}
{{- fail (printf "nats.auth.existingSecrets has no Secret of %s, and there is no nats.auth.existingSecret" $user) -}}
{{- end -}}
- name: login
  secret:
    secretName: {{ default (include "noetl.usersSecret" $root) (index $v.nats.auth.existingSecrets $user) }}
    defaultMode: 0440
    items:
      - key: {{ include "noetl.userKey" (list $root $user) }}
        path: user.{{ if eq $v.nats.auth.mode "jwt" }}creds{{ else }}nk{{ end }}
{{ include "noetl.tlsVolumes" $root }}
{{- end -}}

{{- define "noetl.tlsVolumes" -}}
{{- with .Values.nats.tls.caSecret }}
- name: ca
  secret: { secretName: {{ . }}, defaultMode: 0440, items: [{ key: ca.crt, path: ca.crt }] }
{{- end }}
{{- with .Values.nats.tls.clientSecret }}
- name: tls
  secret:
    secretName: {{ . }}
    defaultMode: 0440
    items: [{ key: tls.crt, path: tls.crt }, { key: tls.key, path: tls.key }]
{{- end }}
{{- end -}}

{{- define "noetl.loginMounts" -}}
- { name: tmp, mountPath: /tmp }
- { name: login, mountPath: /run/noetl/login, readOnly: true }
{{ include "noetl.tlsMounts" . }}
{{- end -}}

{{- define "noetl.tlsMounts" -}}
{{- if .Values.nats.tls.caSecret }}
- { name: ca, mountPath: /run/noetl/ca, readOnly: true }
{{- end }}
{{- if .Values.nats.tls.clientSecret }}
- { name: tls, mountPath: /run/noetl/tls, readOnly: true }
{{- end }}
{{- end -}}

{{/* Pod Security `restricted`, and more than it asks for. */}}
{{- define "noetl.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{- define "noetl.containerSecurity" -}}
allowPrivilegeEscalation: false
privileged: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: { drop: [ALL] }
{{- end -}}

{{- define "noetl.probes" -}}
startupProbe:
  httpGet: { path: /livez, port: health }
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 60
livenessProbe:
  httpGet: { path: /livez, port: health }
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: { path: /readyz, port: health }
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 2
{{- end -}}

{{- define "noetl.placing" -}}
{{- $root := index . 0 -}}{{- $component := index . 1 -}}{{- $own := index . 2 -}}
{{- if $root.Values.topologySpread }}
topologySpreadConstraints:
{{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "noetl.selector" (list $root $component) | nindent 8 }}
{{- end }}
{{- end }}
{{- with $own.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with $own.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with $own.affinity }}
affinity: {{ toJson . }}
{{- end }}
{{- with $own.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{/*
A service's Pod: call with a dict of root, component, module, user, own (its values), env (more variables),
volumes and mounts (as YAML), token (mounted or not), account, tmp (size).
The time to go is that of draining and 15 s more, which is over a command's lease.
*/}}
{{- define "noetl.pod" -}}
{{- $root := .root -}}{{- $own := .own -}}
{{- $env := include "noetl.env" $root | fromJson -}}
{{- $_ := set $env "NOETL_HEALTH_PORT" "8080" -}}
{{- $_ := set $env "NOETL_DRAIN_S" (toString $own.drainSeconds) -}}
{{- $env = mergeOverwrite $env (default (dict) .env) -}}
{{- range $name := keys $own.extraEnv | sortAlpha -}}
{{- if and (hasKey $env $name) (not (has $name (list "NOETL_LOG_LEVEL" "NOETL_MAX_SKEW_S"))) -}}
{{- fail (printf "extraEnv.%s of %s: another value says that, and what depends on it" $name $.component) -}}
{{- end -}}
{{- end -}}
{{- $env = mergeOverwrite $env (deepCopy $own.extraEnv) -}}
automountServiceAccountToken: {{ .token }}
serviceAccountName: {{ .account }}
enableServiceLinks: false
terminationGracePeriodSeconds: {{ add (ceil $own.drainSeconds) 15 }}
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  {{- include "noetl.podSecurity" . | nindent 2 }}
{{- include "noetl.placing" (list $root .component $own) }}
containers:
  - name: {{ .module }}
    image: {{ include "noetl.image" $root | quote }}
    imagePullPolicy: {{ $root.Values.image.pullPolicy }}
    command: [python, -m, services.{{ .module }}]
    ports:
      - { name: health, containerPort: 8080, protocol: TCP }
    env:
      {{- include "noetl.envList" $env | nindent 6 }}
    {{- include "noetl.probes" . | nindent 4 }}
    resources: {{ toJson $own.resources }}
    securityContext:
      {{- include "noetl.containerSecurity" . | nindent 6 }}
    volumeMounts:
      {{- include "noetl.loginMounts" $root | nindent 6 }}
      {{- with .mounts }}
      {{- . | nindent 6 }}
      {{- end }}
volumes:
  - name: tmp
    emptyDir: { sizeLimit: {{ default "256Mi" .tmp }} }
  {{- include "noetl.loginVolumes" (list $root .user) | nindent 2 }}
  {{- with .volumes }}
  {{- . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* A Deployment of the control plane: the same dict, and replicas of its own values. */}}
{{- define "noetl.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "noetl.fullname" .root }}-{{ .component }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "noetl.labels" (list .root .component) | nindent 4 }}
spec:
  replicas: {{ .own.replicas }}
  strategy: { type: RollingUpdate, rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } }
  selector:
    matchLabels:
      {{- include "noetl.selector" (list .root .component) | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "noetl.labels" (list .root .component) | nindent 8 }}
        {{- with .own.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with .own.podAnnotations }}
      annotations: {{ toJson . }}
      {{- end }}
    spec:
      {{- include "noetl.pod" . | nindent 6 }}
{{- end -}}
