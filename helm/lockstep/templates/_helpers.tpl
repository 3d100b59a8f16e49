{{- define "lockstep.operator" -}}{{ .Release.Name }}-operator{{- end }}

{{- define "lockstep.serviceAccount" -}}
{{- if .Values.serviceAccount.name }}{{ .Values.serviceAccount.name }}
{{- else if .Values.serviceAccount.create }}{{ include "lockstep.operator" . }}
{{- else }}{{ fail "serviceAccount.name is required where serviceAccount.create is false" }}{{ end }}
{{- end }}

{{- /* What finds the operator's pods. */}}
{{- define "lockstep.selector" -}}
app.kubernetes.io/name: lockstep
app.kubernetes.io/component: operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "lockstep.labels" -}}
{{ include "lockstep.selector" . }}
app.kubernetes.io/part-of: lockstep
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "lockstep.tag" -}}{{ .Values.image.tag | default .Chart.AppVersion }}{{- end }}

{{- define "lockstep.registry" -}}
{{ required "image.registry is required: where your images are" .Values.image.registry }}
{{- end }}

{{- define "lockstep.runtimeImage" -}}
{{ include "lockstep.registry" . }}/{{ .Values.image.runtime }}:{{ include "lockstep.tag" . }}
{{- end }}

{{- /* The image for GPUs stands beside our image for CPU; whoever names another image for jobs has it for all of them, unless he names two. */}}
{{- define "lockstep.gpuRuntime" -}}
{{- if .Values.image.gpuRuntime }}{{ .Values.image.gpuRuntime }}
{{- else if eq .Values.image.runtime "lockstep/runtime-cpu" }}lockstep/runtime
{{- end }}
{{- end }}

{{- /* What the operator may do in the namespaces that it watches: no secrets, no exec, nothing but jobs and their children. */}}
{{- define "lockstep.rules" -}}
- apiGroups: [lockstep.dev]
  resources: [trainingjobs]
  verbs: [get, list, watch, delete]  # delete: ttlSecondsAfterFinished
- apiGroups: [lockstep.dev]
  resources: [trainingjobs/status]
  verbs: [update, patch]
- apiGroups: [lockstep.dev]
  resources: [trainingjobs/finalizers]  # owner references that block the owner's deletion
  verbs: [update]
- apiGroups: [""]
  resources: [pods, services, configmaps]
  verbs: [get, list, watch, create, delete]
- apiGroups: [""]
  resources: [pods]  # to tell Kueue that a pod group is over
  verbs: [patch]
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads, localqueues]  # why a queue lets a job wait
  verbs: [get]
- apiGroups: [scheduling.x-k8s.io, scheduling.volcano.sh, scheduling.k8s.io]
  resources: [podgroups]  # gangs of schedulers that know them
  verbs: [get, create, patch, delete]
- apiGroups: [""]
  resources: [events]
  verbs: [get, create, patch]
{{- end }}

{{- /* An alert of files/rules.yaml, with what metrics.rules.alerts has for it. A window is in ranges and offsets. */}}
{{- define "lockstep.alert" -}}
{{- $rule := .rule }}
{{- $window := "(\\[|offset )[0-9]+[smhdw]" }}
{{- with .own.for }}{{ $_ := set $rule "for" . }}{{ end }}
{{- with .own.severity }}{{ $_ := set $rule.labels "severity" . }}{{ end }}
{{- with .own.window }}
{{- if not (regexMatch $window $rule.expr) }}{{ fail (printf "metrics.rules.alerts.%s.window: the expression of this alert has no range to change" $rule.alert) }}{{ end }}
{{- $_ := set $rule "expr" (regexReplaceAll $window $rule.expr (printf "${1}%s" .)) }}
{{- end }}
{{- if not .links }}{{ $_ := unset $rule.annotations "runbook_url" }}{{ end }}
{{- toYaml $rule }}
{{- end }}

{{- /* The one thing outside of namespaces: which nodes are gone, or do not answer. */}}
{{- define "lockstep.nodeRules" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, list, watch]
{{- end }}
