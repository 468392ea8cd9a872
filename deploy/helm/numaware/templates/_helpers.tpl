{{- define "numaware.labels" -}}
app.kubernetes.io/name: numaware-{{ .component }}
app.kubernetes.io/part-of: numaware
{{- end }}

{{- define "numaware.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Files of deploy/rbac, whose one namespace is numaware, for the namespace of this release. */}}
{{- define "numaware.rbac" -}}
{{- $namespace := .root.Release.Namespace -}}
{{- $text := .root.Files.Get (printf "files/rbac/%s.yaml" .file) | required (printf "files/rbac/%s.yaml is missing" .file) -}}
{{- $text
  | replace "namespace: numaware\n" (printf "namespace: %s\n" $namespace)
  | replace "serviceaccount:numaware:" (printf "serviceaccount:%s:" $namespace) }}
{{- end }}

{{/* Nobody, on a file system that is read only. */}}
{{- define "numaware.restricted" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* The kubelet's sockets and files are root's; nothing else of root is needed. */}}
{{- define "numaware.root" -}}
runAsUser: 0
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "numaware.where" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .part.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .part.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Where Prometheus answers, by our name or by openFuyao's. */}}
{{- define "numaware.prometheus" -}}
{{- $website := index .Values "volcano-config-website" | default dict }}
{{- .Values.console.prometheus | default (($website.backend | default dict).query) | default "" }}
{{- end }}
