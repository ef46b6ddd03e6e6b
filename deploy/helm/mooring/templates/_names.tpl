{{- define "mooring.labels" -}}
app: {{ .Release.Name }}
app.kubernetes.io/name: mooring
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "mooring.subject" -}}
{kind: ServiceAccount, name: {{ .Release.Name }}, namespace: {{ .Release.Namespace }}}
{{- end }}

{{- /* The names of the plugin files, as a JSON list in {"files": [...]}: a template can only return text. */}}
{{- define "mooring.pluginFiles" -}}
{{- if and .Values.plugins.files .Values.plugins.volume }}
{{- fail "plugins.files and plugins.volume exclude each other: set one of them" }}
{{- end }}
{{- if and .Values.plugins.volume (not .Values.plugins.paths) }}
{{- fail "plugins.volume needs plugins.paths: the names of the files to load" }}
{{- end }}
{{- if and .Values.plugins.paths (not .Values.plugins.volume) }}
{{- fail "plugins.paths names files of plugins.volume, which is not set" }}
{{- end }}
{{- dict "files" (concat (keys .Values.plugins.files | sortAlpha) .Values.plugins.paths) | toJson }}
{{- end }}

{{- define "mooring.args" -}}
- run
- --config=/etc/mooring/config.yaml
- -v={{ .Values.verbosity }}
{{- range (include "mooring.pluginFiles" . | fromJson).files }}
- {{ printf "--plugin=/etc/mooring-plugins/%s" . | quote }}
{{- end }}
{{- if .Values.featureGates }}
{{- $gates := list }}
{{- range $name := keys .Values.featureGates | sortAlpha }}
{{- $gates = append $gates (printf "%s=%t" $name (index $.Values.featureGates $name)) }}
{{- end }}
- {{ printf "--feature-gates=%s" (join "," $gates) | quote }}
{{- end }}
{{- range .Values.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}
