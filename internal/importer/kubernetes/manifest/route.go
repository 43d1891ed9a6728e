package manifest

// RouteSpec is the spec of an HTTPRoute or GRPCRoute of the Gateway API.
type RouteSpec struct {
	ParentRefs IgnoredField `json:"parentRefs"`
	Hostnames  []string     `json:"hostnames"`
	Rules      []struct {
		Name     IgnoredField `json:"name"`
		Timeouts IgnoredField `json:"timeouts"`
		Matches  []struct {
			Path *struct {
				Type  string `json:"type"`
				Value string `json:"value"`
			} `json:"path"`
			Method      given          `json:"method"`
			Headers     []IgnoredField `json:"headers"`
			QueryParams []IgnoredField `json:"queryParams"`
		} `json:"matches"`
		Filters []struct {
			Type       string `json:"type"`
			URLRewrite *struct {
				Hostname string `json:"hostname"`
				Path     *struct {
					Type               string `json:"type"`
					ReplacePrefixMatch string `json:"replacePrefixMatch"`
					ReplaceFullPath    string `json:"replaceFullPath"`
				} `json:"path"`
			} `json:"urlRewrite"`
			Redirect       IgnoredField `json:"requestRedirect"`
			RequestHeader  IgnoredField `json:"requestHeaderModifier"`
			ResponseHeader IgnoredField `json:"responseHeaderModifier"`
			Mirror         IgnoredField `json:"requestMirror"`
			ExtensionRef   IgnoredField `json:"extensionRef"`
			CORS           IgnoredField `json:"cors"`
		} `json:"filters"`
		BackendRefs []struct {
			Group     string         `json:"group"`
			Kind      string         `json:"kind"`
			Name      string         `json:"name"`
			Namespace string         `json:"namespace"`
			Port      int32          `json:"port"`
			Weight    *int32         `json:"weight"`
			Filters   []IgnoredField `json:"filters"`
		} `json:"backendRefs"`
	} `json:"rules"`
}
