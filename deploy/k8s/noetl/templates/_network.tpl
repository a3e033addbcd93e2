{{/* Labels of every Pod of the release. */}}
{{- define "noetl.ofRelease" -}}
app.kubernetes.io/name: {{ include "noetl.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Whoever answers /metrics, as a selector. */}}
{{- define "noetl.tellers" -}}
matchLabels:
  {{- include "noetl.ofRelease" . | nindent 2 }}
matchExpressions:
  - { key: app.kubernetes.io/component, operator: In, values: [router, scheduler, projector, pools, worker] }
{{- end -}}

{{- define "noetl.tcp" -}}
{{- range . }}
- { protocol: TCP, port: {{ int . }} }
{{- end }}
{{- end -}}
