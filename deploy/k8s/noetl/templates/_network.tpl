{{/* Labels of every Pod of the release. */}}
{{- define "noetl.ofRelease" -}}
app.kubernetes.io/name: {{ include "noetl.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "noetl.tcp" -}}
{{- range . }}
- { protocol: TCP, port: {{ int . }} }
{{- end }}
{{- end -}}
