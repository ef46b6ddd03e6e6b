{{- define "mooring.labels" -}}
app: {{ .Release.Name }}
app.kubernetes.io/name: mooring
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* Of what belongs to no namespace: two releases in two namespaces may have one name. */}}
{{- define "mooring.clusterName" -}}
{{ .Release.Namespace }}-{{ .Release.Name }}
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
{{- if .Values.dashboard.enabled }}
- --dashboard
{{- end }}
{{- if .Values.record.enabled }}
- --record=/var/lib/mooring
- {{ printf "--record-max-size=%s" .Values.record.maxSize | quote }}
- {{ printf "--record-max-age=%s" .Values.record.maxAge | quote }}
- {{ printf "--record-interval=%s" .Values.record.interval | quote }}
{{- end }}
{{- if and .Values.selfCheck.repair (not .Values.selfCheck.interval) }}
{{- fail "selfCheck.repair needs selfCheck.interval: how often to check, for example 10m" }}
{{- end }}
{{- with .Values.selfCheck.interval }}
- {{ printf "--self-check=%s" . | quote }}
{{- end }}
{{- if .Values.selfCheck.repair }}
- --self-check-repair
{{- end }}
{{- range .Values.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}
