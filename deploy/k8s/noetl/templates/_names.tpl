{{- define "noetl.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Services are called by it: no dot, and a letter first. */}}
{{- define "noetl.fullname" -}}
{{- $full := printf "%s-%s" .Release.Name (include "noetl.name" .) -}}
{{- if .Values.fullnameOverride -}}
{{- $full = .Values.fullnameOverride -}}
{{- else if contains (include "noetl.name" .) .Release.Name -}}
{{- $full = .Release.Name -}}
{{- end -}}
{{- $full = $full | trunc 40 | trimSuffix "-" -}}
{{- if not (regexMatch "^[a-z][-a-z0-9]*$" $full) -}}
{{- fail (printf "a Service cannot be called %s: set fullnameOverride, which begins with a letter and has no dot" $full) -}}
{{- end -}}
{{- $full -}}
{{- end -}}

{{/* Call with (list $ component). Selectors never change: they hold nothing but these. */}}
{{- define "noetl.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "noetl.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "noetl.labels" -}}
{{- $root := index . 0 -}}
{{ include "noetl.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "noetl.image" -}}
{{- $tag := default .Chart.AppVersion .Values.image.tag -}}
{{- if .Values.image.digest -}}{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}{{ .Values.image.repository }}:{{ $tag }}{{- end -}}
{{- end -}}

{{- define "noetl.natsUrl" -}}
{{- if .Values.nats.bundled.enabled -}}
{{- if .Values.nats.url -}}{{ fail "nats.url and nats.bundled.enabled: which broker is it? Set nats.bundled.enabled to false for your own" }}{{- end -}}
nats://{{ include "noetl.fullname" . }}-nats:4222
{{- else -}}
{{- required "nats.url is needed without nats.bundled.enabled" .Values.nats.url -}}
{{- end -}}
{{- end -}}

{{/* Secrets that the Job writes: those of the users, and the one from which everything is made. */}}
{{- define "noetl.usersSecret" -}}{{ default (printf "%s-nats-users" (include "noetl.fullname" .)) .Values.nats.auth.existingSecret }}{{- end -}}
{{- define "noetl.keyringSecret" -}}{{ include "noetl.fullname" . }}-nats-keyring{{- end -}}
{{- define "noetl.makesKeys" -}}
{{- if not (or .Values.nats.auth.existingSecret .Values.nats.auth.existingSecrets) -}}yes{{- end -}}
{{- end -}}

{{/* A pool's values, over the defaults: call with (list $ name). As JSON. */}}
{{- define "noetl.pool" -}}
{{- $root := index . 0 -}}{{- $name := index . 1 -}}
{{- $own := default (dict) (index $root.Values.workerPools $name) -}}
{{- mergeOverwrite (deepCopy $root.Values.workerDefaults) (deepCopy $own) | toJson -}}
{{- end -}}

{{/* What bootstrap and keys depend on: their Jobs are named by it. Call with (list $ extra). */}}
{{- define "noetl.hash" -}}
{{- $root := index . 0 -}}
{{- $parts := list (include "noetl.image" $root) (toJson (index . 1)) -}}
{{- join "\n" $parts | sha256sum | trunc 10 -}}
{{- end -}}

{{- define "noetl.poolNames" -}}{{ keys .Values.workerPools | sortAlpha | join "," }}{{- end -}}

{{/* A size of Kubernetes or of the broker, as the schema lets it through, in bytes. */}}
{{- define "noetl.bytes" -}}
{{- $tens := dict "" 1 "k" 1000 "K" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 -}}
{{- $size := . -}}
{{- $count := regexFind "^[0-9]+" $size | int64 -}}
{{- $unit := regexReplaceAll "^[0-9]+" $size "" -}}
{{- if hasKey $tens $unit -}}
{{ mul $count (index $tens $unit) }}
{{- else -}}
{{- $powers := dict "K" 1 "M" 2 "G" 3 "T" 4 -}}
{{- range until (index $powers (trunc 1 $unit)) -}}{{- $count = mul $count 1024 -}}{{- end -}}
{{ $count }}
{{- end -}}
{{- end -}}

{{/* What the bundled broker may write: more than its volume would fill the disk, and it stops. */}}
{{- define "noetl.fileStore" -}}
{{- $storage := .Values.nats.bundled.storage -}}
{{- $size := include "noetl.bytes" $storage.size | int64 -}}
{{- if $storage.maxFileStore -}}
{{- if gt (include "noetl.bytes" $storage.maxFileStore | int64) $size -}}
{{- fail (printf "nats.bundled.storage.maxFileStore %s is more than the volume of %s" $storage.maxFileStore $storage.size) -}}
{{- end -}}
{{ $storage.maxFileStore }}
{{- else -}}
{{ mul (div $size 10) 9 }}
{{- end -}}
{{- end -}}
