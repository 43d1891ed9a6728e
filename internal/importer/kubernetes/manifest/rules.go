package manifest

import (
	"reflect"
	"slices"
	"strings"

	"github.com/verge-edge/verge/api/pattern"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
	"github.com/verge-edge/verge/internal/k8s"
)

// NamePattern is what Kubernetes accepts as the name of an object.
var NamePattern = pattern.Lazy(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// The rest checks what the types of Kubernetes allow and its API server refuses nevertheless.

// givenFields returns the names of the pointers in a structure that are not nil.
func givenFields(of any) (out []string) {
	v := reflect.ValueOf(of)
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Pointer && !f.IsNil() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			out = append(out, name)
		}
	}
	return out
}

// OneOf refuses a structure with more than one kind set where one is allowed, and reports the
// result.
func OneOf(r *report.Report, o *Object, at []string, what string, of any) bool {
	given := givenFields(of)
	if len(given) > 1 {
		r.At(report.Refused, o.Doc, source.Extend(at, given[1]), "Kubernetes would refuse it: %s has one of %s", what,
			report.List(given))
	}
	return len(given) > 1
}

// labelOperators and nodeOperators are the operators of selectors.
var (
	labelOperators = []string{"In", "NotIn", "Exists", "DoesNotExist"}
	NodeOperators  = append([]string{"Gt", "Lt"}, labelOperators...)
)

// OperatorOK refuses an expression of a selector with an unknown operator, or without the
// values that its operator takes. It says whether the expression is valid.
func OperatorOK(r *report.Report, o *Object, at []string, known []string, operator string, values []string) bool {
	switch {
	case !slices.Contains(known, operator):
		r.At(report.Refused, o.Doc, source.Extend(at, "operator"), "Kubernetes would refuse it: %s is not an operator (%s)",
			source.Quote(operator), strings.Join(known, ", "))
	case strings.HasSuffix(operator, "In") && len(values) == 0:
		r.At(report.Refused, o.Doc, at, "Kubernetes would refuse it: %s has values", operator)
	case strings.HasSuffix(operator, "Exist") && len(values) > 0, operator == "Exists" && len(values) > 0:
		r.At(report.Refused, o.Doc, source.Extend(at, "values"), "Kubernetes would refuse it: %s has no values", operator)
	default:
		return true
	}
	return false
}

// SelectorRefused refuses a selector with an invalid expression, and says whether it did.
func SelectorRefused(r *report.Report, o *Object, at []string, s *k8s.LabelSelector) (refused bool) {
	for i, e := range s.MatchExpressions {
		refused = !OperatorOK(r, o, source.Extend(at, "matchExpressions", source.Index(i)), labelOperators,
			string(e.Operator), e.Values) || refused
	}
	return refused
}

// IsNamespace says whether Kubernetes accepts a name for a namespace.
func IsNamespace(name string) bool {
	return len(name) <= 63 && NamePattern().MatchString(name) && !strings.Contains(name, ".")
}
