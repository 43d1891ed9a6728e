package importer

import (
	"reflect"
	"slices"
	"strings"

	"github.com/verge-edge/verge/internal/k8s"
)

// What the types of Kubernetes can hold and its API server refuses nevertheless.

// givenFields are the names of those pointers in a structure that point to something.
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

// oneOf refuses something of which one kind is to be given, and several are. It says whether
// that is so.
func (g *kubeGroup) oneOf(o *object, at []string, what string, of any) bool {
	given := givenFields(of)
	if len(given) > 1 {
		g.refuse(o, extend(at, given[1]), "Kubernetes would refuse it: %s has one of %s", what, list(given))
	}
	return len(given) > 1
}

// labelOperators and nodeOperators are those of selectors.
var (
	labelOperators = []string{"In", "NotIn", "Exists", "DoesNotExist"}
	nodeOperators  = append([]string{"Gt", "Lt"}, labelOperators...)
)

// operator refuses an expression of a selector that has none of the operators that are known, or
// not the values that its operator takes. It says whether it is one.
func (g *kubeGroup) operator(o *object, at []string, known []string, operator string, values []string) bool {
	switch {
	case !slices.Contains(known, operator):
		g.refuse(o, extend(at, "operator"), "Kubernetes would refuse it: %s is no operator (%s)", quote(operator), strings.Join(known, ", "))
	case strings.HasSuffix(operator, "In") && len(values) == 0:
		g.refuse(o, at, "Kubernetes would refuse it: %s has values", operator)
	case strings.HasSuffix(operator, "Exist") && len(values) > 0, operator == "Exists" && len(values) > 0:
		g.refuse(o, extend(at, "values"), "Kubernetes would refuse it: %s has no values", operator)
	default:
		return true
	}
	return false
}

// selectorRefused refuses a selector with an expression that is none, and says whether it has one.
func (g *kubeGroup) selectorRefused(o *object, at []string, s *k8s.LabelSelector) (refused bool) {
	for i, e := range s.MatchExpressions {
		refused = !g.operator(o, extend(at, "matchExpressions", index(i)), labelOperators, string(e.Operator), e.Values) || refused
	}
	return refused
}

// kubeNamespace says whether Kubernetes takes a name for that of a namespace.
func kubeNamespace(name string) bool {
	return len(name) <= 63 && kubeName().MatchString(name) && !strings.Contains(name, ".")
}
