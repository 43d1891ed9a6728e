package api

import (
	"encoding/json"
)

// MarshalJSON writes the one of content and secret that is set: content where
// neither is, because an empty file has an empty content.
func (f File) MarshalJSON() ([]byte, error) {
	if f.Secret != "" {
		return json.Marshal(struct {
			Secret string   `json:"secret"`
			Mode   FileMode `json:"mode,omitempty"`
		}{f.Secret, f.Mode})
	}
	return json.Marshal(struct {
		Content string   `json:"content"`
		Mode    FileMode `json:"mode,omitempty"`
	}{f.Content, f.Mode})
}
