{{- define "dragonfly.name" -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "dragonfly.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "dragonfly.labels" -}}
{{ include "dragonfly.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* What a pod's name is followed by: names stay when addresses change. */ -}}
{{- define "dragonfly.domain" -}}
{{ include "dragonfly.name" . }}-nodes.{{ .Release.Namespace }}.svc
{{- end }}
