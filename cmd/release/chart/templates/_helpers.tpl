{{/*
An image's reference. Tags have no plus sign: `make release` writes another sign for it, too.
root: the chart's; image: the values of the image.
*/}}
{{- define "weft.image" -}}
{{- with .image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.root.Chart.AppVersion | replace "+" "_" }}{{ end }}
{{- end }}
{{- end }}

{{/* What is wrong with the values beside what their schema refuses: a line for each, with its remedy. */}}
{{- define "weft.problems" -}}
{{- $c := .Values.controller }}
{{- if not .Values.apiServer.host }}
apiServer.host is empty: give an address of the API server that hosts reach without a Service, as 192.0.2.1
{{- end }}
{{- range $key, $example := dict "ovn-northbound" "[ssl:192.0.2.11:6641]" "pod-cidrs" "[10.244.0.0/16]" "service-cidrs" "[10.96.0.0/16]" }}
{{- if not (get $c.config $key) }}
controller.config.{{ $key }} is empty: give the value that this cluster has, as {{ $example }}
{{- end }}
{{- end }}
{{- if and (not $c.tlsSecret) (contains "ssl:" (get $c.config "ovn-northbound" | toString)) }}
controller.tlsSecret is empty, and ovn-northbound has endpoints of ssl: name a Secret of namespace {{ .Release.Namespace }} that has ca.crt, tls.crt and tls.key
{{- end }}
{{- with .Values.observe }}
{{- if and .enabled (not .tlsSecret) }}
observe.tlsSecret is empty: name a Secret of namespace {{ $.Release.Namespace }} that has ca.crt, tls.crt and tls.key
{{- end }}
{{- if and .enabled (not (contains "BEGIN CERTIFICATE" .caBundle)) }}
observe.caBundle is no certificate of PEM: give the authority of observe.tlsSecret, by --set-file observe.caBundle=ca.crt
{{- end }}
{{- if and .enabled (not .sockets.group) }}
observe.sockets.group is empty: give the number that `stat -c %g {{ .sockets.folder }}` prints on the hosts of the databases
{{- end }}
{{- end }}
{{- if and .Values.node.enabled (not (get .Values.node.config "ovn-southbound")) }}
node.config.ovn-southbound is empty: give the value that this cluster has, as [ssl:192.0.2.11:6642]
{{- end }}
{{- end }}

{{/* A probe of path at the metrics address, which is one of the host. */}}
{{- define "weft.probe" -}}
{{- $host := regexReplaceAll "^\\[?(.*?)\\]?:[0-9]+$" .address "${1}" }}
{{- toJson (merge (dict "path" .path "port" (regexReplaceAll "^.*:" .address "" | int)) (ternary (dict "host" $host) dict (ne $host ""))) }}
{{- end }}

{{/*
A part of Weft as pods on hosts' network, with its account and its configuration.
root: the chart's; name: weft-NAME; values: those of the part; settings: the file of its keys; metrics: where it serves
/healthz by default; grace: seconds in which it ends; environment: variables; volumes: [{name, path, source}]; groups:
numbers of groups that it needs.
*/}}
{{- define "weft.part" -}}
{{- $service := printf "weft-%s" .name }}
{{- $labels := dict "app.kubernetes.io/name" $service "app.kubernetes.io/part-of" "weft" }}
{{- $config := dict (printf "%s.yaml" .name) (toYaml .settings) }}
{{- $metrics := .metrics }}
{{- if hasKey .settings "metrics-address" }}{{ $metrics = get .settings "metrics-address" }}{{ end }}
{{- $volumes := prepend .volumes (dict "name" "config" "path" "/etc/weft/config" "source" (dict "configMap" (dict "name" $service))) }}
{{- with .values.tlsSecret }}
{{- $volumes = append $volumes (dict "name" "tls" "path" "/etc/weft/tls" "source" (dict "secret" (dict "secretName" . "defaultMode" 0o440))) }}
{{- end }}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $service }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- toYaml $labels | nindent 4 }}
automountServiceAccountToken: false
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $service }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- toYaml $labels | nindent 4 }}
data: {{- toYaml $config | nindent 2 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $service }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- toYaml $labels | nindent 4 }}
spec:
  maxUnavailable: 1
  selector: {matchLabels: {app.kubernetes.io/name: {{ $service }}}}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $service }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- toYaml $labels | nindent 4 }}
spec:
  replicas: {{ .values.replicas }}
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}
  selector: {matchLabels: {app.kubernetes.io/name: {{ $service }}}}
  template:
    metadata:
      labels: {{- toYaml $labels | nindent 8 }}
      annotations: {checksum/config: {{ toYaml $config | sha256sum }}}
    spec:
      nodeSelector: {{- toYaml .values.nodeSelector | nindent 8 }}
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app.kubernetes.io/name: {{ $service }}}}}
      # It makes the network that other pods wait for.
      hostNetwork: true
      enableServiceLinks: false
      dnsPolicy: Default
      priorityClassName: system-cluster-critical
      tolerations: [{operator: Exists}]
      serviceAccountName: {{ $service }}
      automountServiceAccountToken: true
      terminationGracePeriodSeconds: {{ .grace }}
      {{- with .root.Values.image.pullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 6 }}
      {{- end }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        fsGroup: 65532
        {{- with .groups }}
        supplementalGroups: {{ toJson . }}
        {{- end }}
        seccompProfile: {type: RuntimeDefault}
      containers:
      - name: weft
        image: {{ include "weft.image" (dict "root" .root "image" .root.Values.image) | quote }}
        imagePullPolicy: {{ .root.Values.image.pullPolicy }}
        args: [{{ .name }}, --config, /etc/weft/config/{{ .name }}.yaml]
        env:
        # Instead of the Service's, which Kubernetes gives all pods.
        - {name: KUBERNETES_SERVICE_HOST, value: {{ .root.Values.apiServer.host | quote }}}
        - {name: KUBERNETES_SERVICE_PORT, value: {{ .root.Values.apiServer.port | quote }}}
        {{- toYaml .environment | nindent 8 }}
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities: {drop: [ALL]}
        {{- if $metrics }}
        livenessProbe: {httpGet: {{ include "weft.probe" (dict "address" $metrics "path" "/healthz") }}, periodSeconds: 10, failureThreshold: 6}
        readinessProbe: {httpGet: {{ include "weft.probe" (dict "address" $metrics "path" "/readyz") }}, periodSeconds: 2}
        {{- end }}
        resources: {{- toYaml .values.resources | nindent 10 }}
        volumeMounts:
        {{- range $volumes }}
        - {name: {{ .name }}, mountPath: {{ .path | quote }}, readOnly: {{ not .writable }}}
        {{- end }}
      volumes:
      {{- range $volumes }}
      - {{ merge (dict "name" .name) .source | toJson }}
      {{- end }}
{{- end }}

{{/*
The objects of a file of rights. Where they name the user of a part, weft:NAME, they name the account of its pods, too: so
pods and units of one cluster can stand in for each other.
*/}}
{{- define "weft.rights" -}}
{{- $root := .root }}
{{- range splitList "\n---\n" ($root.Files.Get .file) }}
{{- $object := fromYaml . }}
{{- range $object.subjects }}
{{- if and (eq .kind "User") (has .name (list "weft:controller" "weft:observe")) }}
{{- $account := dict "kind" "ServiceAccount" "name" (replace ":" "-" .name) "namespace" $root.Release.Namespace }}
{{- $_ := set $object "subjects" (append $object.subjects $account) }}
{{- end }}
{{- end }}
{{- range dig "spec" "matchConditions" list $object }}
{{- if eq .name "not-the-controller" }}
{{- $_ := set . "expression" (printf "!(request.userInfo.username in ['weft:controller', 'system:serviceaccount:%s:weft-controller'])" $root.Release.Namespace) }}
{{- end }}
{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
