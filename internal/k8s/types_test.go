package k8s

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/build"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var update = flag.Bool("update", false, "write the types anew")

// roots are the types that files are read into; with them come those of their fields.
var roots = []reflect.Type{
	reflect.TypeFor[corev1.PodSpec](), reflect.TypeFor[corev1.ServiceSpec](), reflect.TypeFor[corev1.PersistentVolumeClaim](),
	reflect.TypeFor[corev1.ConfigMap](), reflect.TypeFor[corev1.SecretType](), reflect.TypeFor[metav1.ObjectMeta](), reflect.TypeFor[metav1.LabelSelector](),
	reflect.TypeFor[appsv1.PodManagementPolicyType](), reflect.TypeFor[batchv1.CompletionMode](), reflect.TypeFor[batchv1.ConcurrencyPolicy](),
	reflect.TypeFor[batchv1.PodReplacementPolicy](), reflect.TypeFor[networkingv1.PathType](),
}

// constants are the values that the importer knows, by their names in k8s.io/api.
var constants = []struct {
	name  string
	value any
}{
	{"ContainerRestartPolicyAlways", corev1.ContainerRestartPolicyAlways},
	{"DefaultSchedulerName", corev1.DefaultSchedulerName},
	{"HostPathDirectory", corev1.HostPathDirectory},
	{"HostPathDirectoryOrCreate", corev1.HostPathDirectoryOrCreate},
	{"HostPathSocket", corev1.HostPathSocket},
	{"HostPathUnset", corev1.HostPathUnset},
	{"LabelHostname", corev1.LabelHostname},
	{"LabelSelectorOpDoesNotExist", metav1.LabelSelectorOpDoesNotExist},
	{"LabelSelectorOpIn", metav1.LabelSelectorOpIn},
	{"LabelSelectorOpNotIn", metav1.LabelSelectorOpNotIn},
	{"MountPropagationNone", corev1.MountPropagationNone},
	{"NodeSelectorOpIn", corev1.NodeSelectorOpIn},
	{"NodeSelectorOpNotIn", corev1.NodeSelectorOpNotIn},
	{"ProtocolSCTP", corev1.ProtocolSCTP},
	{"ProtocolTCP", corev1.ProtocolTCP},
	{"ProtocolUDP", corev1.ProtocolUDP},
	{"PullAlways", corev1.PullAlways},
	{"PullIfNotPresent", corev1.PullIfNotPresent},
	{"PullNever", corev1.PullNever},
	{"ReadOnlyMany", corev1.ReadOnlyMany},
	{"ReadWriteMany", corev1.ReadWriteMany},
	{"ResourceCPU", corev1.ResourceCPU},
	{"ResourceEphemeralStorage", corev1.ResourceEphemeralStorage},
	{"ResourceMemory", corev1.ResourceMemory},
	{"ResourceStorage", corev1.ResourceStorage},
	{"RestartPolicyAlways", corev1.RestartPolicyAlways},
	{"RestartPolicyNever", corev1.RestartPolicyNever},
	{"RestartPolicyOnFailure", corev1.RestartPolicyOnFailure},
	{"ScheduleAnyway", corev1.ScheduleAnyway},
	{"SeccompProfileTypeRuntimeDefault", corev1.SeccompProfileTypeRuntimeDefault},
	{"SeccompProfileTypeUnconfined", corev1.SeccompProfileTypeUnconfined},
	{"ServiceAffinityNone", corev1.ServiceAffinityNone},
	{"ServiceExternalTrafficPolicyLocal", corev1.ServiceExternalTrafficPolicyLocal},
	{"ServiceInternalTrafficPolicyLocal", corev1.ServiceInternalTrafficPolicyLocal},
	{"ServiceTypeClusterIP", corev1.ServiceTypeClusterIP},
	{"ServiceTypeExternalName", corev1.ServiceTypeExternalName},
	{"ServiceTypeLoadBalancer", corev1.ServiceTypeLoadBalancer},
	{"ServiceTypeNodePort", corev1.ServiceTypeNodePort},
	{"StorageMediumMemory", corev1.StorageMediumMemory},
	{"Windows", corev1.Windows},
}

// elsewhere are types that are not made anew: what they are here.
var elsewhere = map[string]string{
	"k8s.io/apimachinery/pkg/api/resource.Quantity":   "resource.Quantity",
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString": "intstr.IntOrString",
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":       "time.Time",
	"k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":  "time.Time",
	"k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1":   "FieldsV1",
}

// maker writes types.
type maker struct {
	t    *testing.T
	made map[string]string // by their names
	of   map[string]string // the path of where they are from
}

// name of a type in this package, which is made if it is not here.
func (m *maker) name(of reflect.Type) string {
	if of.PkgPath() == "" {
		switch of.Kind() {
		case reflect.Pointer:
			return "*" + m.name(of.Elem())
		case reflect.Slice:
			return "[]" + m.name(of.Elem())
		case reflect.Map:
			return "map[" + m.name(of.Key()) + "]" + m.name(of.Elem())
		case reflect.Struct:
			m.t.Fatalf("a structure without a name")
		}
		return of.String()
	}
	full := of.PkgPath() + "." + of.Name()
	if here := elsewhere[full]; here != "" {
		return here
	}
	if was, ok := m.of[of.Name()]; ok {
		if was != full {
			m.t.Fatalf("%s and %s have one name", was, full)
		}
		return of.Name()
	}
	if unmarshals := reflect.PointerTo(of).Implements(reflect.TypeFor[interface{ UnmarshalJSON([]byte) error }]()); unmarshals {
		m.t.Fatalf("%s is read in a way of its own", full)
	}
	m.of[of.Name()] = full
	m.made[of.Name()] = m.define(of)
	return of.Name()
}

func (m *maker) define(of reflect.Type) string {
	var b strings.Builder
	article := "of"
	fmt.Fprintf(&b, "// %s is that %s %s.\ntype %s ", of.Name(), article, path.Join(path.Base(path.Dir(of.PkgPath())), path.Base(of.PkgPath())), of.Name())
	switch of.Kind() {
	case reflect.Struct:
		b.WriteString("struct {\n")
		for i := range of.NumField() {
			f := of.Field(i)
			if !f.IsExported() {
				continue
			}
			tag := ""
			if json, ok := f.Tag.Lookup("json"); ok {
				tag = fmt.Sprintf(" `json:%q`", json)
			}
			if f.Anonymous {
				fmt.Fprintf(&b, "\t%s%s\n", m.name(f.Type), tag)
			} else {
				fmt.Fprintf(&b, "\t%s %s%s\n", f.Name, m.name(f.Type), tag)
			}
		}
		b.WriteString("}\n")
	case reflect.Slice:
		fmt.Fprintf(&b, "[]%s\n", m.name(of.Elem()))
	case reflect.Map:
		fmt.Fprintf(&b, "map[%s]%s\n", m.name(of.Key()), m.name(of.Elem()))
	default:
		fmt.Fprintf(&b, "%s\n", of.Kind())
	}
	return b.String()
}

// values are those of the enumerations among the types that were made, by their names, in
// the order in which k8s.io/api has them.
func (m *maker) values() map[string][]string {
	out := map[string][]string{}
	paths := map[string]bool{}
	for _, full := range m.of {
		paths[full[:strings.LastIndexByte(full, '.')]] = true
	}
	for _, from := range slices.Sorted(maps.Keys(paths)) {
		p, err := build.Import(from, ".", build.FindOnly)
		if err != nil {
			m.t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, "types.go"), nil, parser.ParseComments)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			m.t.Fatal(err)
		}
		enumeration := map[string]bool{}
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE && strings.Contains(g.Doc.Text()+" ", "+enum") {
				enumeration[g.Specs[0].(*ast.TypeSpec).Name.Name] = true
			}
		}
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, s := range g.Specs {
				for _, v := range s.(*ast.ValueSpec).Values {
					of := s.(*ast.ValueSpec).Type
					if c, ok := v.(*ast.CallExpr); ok { // T("value")
						of, v = c.Fun, c.Args[0]
					}
					if of, ok := of.(*ast.Ident); !ok || !enumeration[of.Name] || m.of[of.Name] != from+"."+of.Name {
						continue
					}
					if text, err := strconv.Unquote(v.(*ast.BasicLit).Value); err != nil {
						m.t.Fatal(err)
					} else if name := of.(*ast.Ident).Name; text != "" {
						out[name] = append(out[name], text)
					}
				}
			}
		}
	}
	return out
}

// valuesText is a function that has the values.
func valuesText(of map[string][]string) string {
	var b strings.Builder
	b.WriteString("// Values are those that a type of this package has, by its name; nil: any. A field\n" +
		"// that is not given has none of them.\nfunc Values(of string) []string {\n\tswitch of {\n")
	for _, name := range slices.Sorted(maps.Keys(of)) {
		fmt.Fprintf(&b, "\tcase %q:\n\t\treturn %#v\n", name, of[name])
	}
	b.WriteString("\t}\n\treturn nil\n}\n")
	return b.String()
}

// TestTypes compares the types with those of k8s.io/api.
func TestTypes(t *testing.T) {
	m := &maker{t: t, made: map[string]string{}, of: map[string]string{}}
	for _, r := range roots {
		m.name(r)
	}
	var c strings.Builder
	c.WriteString("// Values that fields have.\nconst (\n")
	for _, k := range constants {
		v := reflect.ValueOf(k.value)
		if of := m.name(v.Type()); of == "string" {
			fmt.Fprintf(&c, "\t%s = %q\n", k.name, v.String())
		} else {
			fmt.Fprintf(&c, "\t%s %s = %q\n", k.name, of, v.String())
		}
	}
	c.WriteString(")\n")
	names := make([]string, 0, len(m.made))
	for name := range m.made {
		names = append(names, name)
	}
	slices.Sort(names)
	files := map[string]*bytes.Buffer{
		"constants.go": bytes.NewBufferString(c.String()),
		"values.go":    bytes.NewBufferString(valuesText(m.values())),
	}
	for _, name := range names {
		file := "types_a_to_n.go"
		if name >= "O" {
			file = "types_o_to_z.go"
		}
		if files[file] == nil {
			files[file] = &bytes.Buffer{}
		}
		files[file].WriteString(m.made[name] + "\n")
	}
	for name, body := range files {
		var b bytes.Buffer
		b.WriteString("// Code generated from k8s.io/api by this package's test; DO NOT EDIT.\n\npackage k8s\n\n")
		var imports []string
		for _, i := range []string{"time", "k8s.io/apimachinery/pkg/api/resource", "k8s.io/apimachinery/pkg/util/intstr"} {
			if bytes.Contains(body.Bytes(), []byte(path.Base(i)+".")) && strings.Contains(body.String(), path.Base(i)+"."+map[string]string{"time": "Time", "resource": "Quantity", "intstr": "IntOrString"}[path.Base(i)]) {
				imports = append(imports, fmt.Sprintf("%q", i))
			}
		}
		if len(imports) > 0 {
			b.WriteString("import (\n" + strings.Join(imports, "\n") + "\n)\n\n")
		}
		b.Write(body.Bytes())
		text, err := format.Source(b.Bytes())
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, b.Bytes())
		}
		if *update {
			if err := os.WriteFile(name, text, 0o644); err != nil { //nolint:gosec // source
				t.Fatal(err)
			}
			continue
		}
		is, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(is, text) {
			t.Errorf("%s is not what k8s.io/api has: go test ./internal/k8s -update", name)
		}
	}
}
