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

{{/* The ports of nats.url, as JSON: a policy for another one would cut everybody off. */}}
{{- define "noetl.natsPorts" -}}
{{- $ports := list -}}
{{- range splitList "," (include "noetl.natsUrl" .) -}}
{{- $said := regexFind ":[0-9]+$" (trimSuffix "/" .) | trimPrefix ":" -}}
{{- $usual := ternary 443 (ternary 80 4222 (hasPrefix "ws:" .)) (hasPrefix "wss:" .) -}}
{{- $ports = append $ports (ternary (int $said) $usual (ne $said "")) -}}
{{- end -}}
{{- $ports | uniq | toJson -}}
{{- end -}}

{{- define "noetl.tcp" -}}
{{- range . }}
- { protocol: TCP, port: {{ int . }} }
{{- end }}
{{- end -}}
