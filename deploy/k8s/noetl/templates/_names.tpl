{{- define "noetl.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "noetl.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "noetl.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "noetl.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
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
