package resttest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"slices"
	"strings"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// GetObject finds one of ObjectList, with its content from ObjectContents.
func (f *Fake) GetObject(_ context.Context, namespace, name string) (apiv1.ObjectView, io.ReadSeekCloser, error) {
	end, err := f.begin("get object")
	if err != nil {
		return apiv1.ObjectView{}, nil, err
	}
	defer end()
	i := f.objectAt(namespace, name)
	if i < 0 {
		return apiv1.ObjectView{}, nil, wire.NoObject(namespace, name)
	}
	return f.ObjectList[i], nopCloser{bytes.NewReader(f.ObjectContents[namespace+"/"+name])}, nil
}

type nopCloser struct{ io.ReadSeeker }

// Close implements io.Closer.
func (nopCloser) Close() error { return nil }

// PutObject adds to ObjectList, at the time of Updated of the one that it replaces.
func (f *Fake) PutObject(ctx context.Context, in rest.ObjectUpload) (apiv1.ObjectView, error) {
	data, err := io.ReadAll(in.Body)
	if err != nil {
		return apiv1.ObjectView{}, err
	}
	end, err := f.begin("put object")
	if err != nil {
		return apiv1.ObjectView{}, err
	}
	defer end()
	sum := sha256.Sum256(data)
	v := apiv1.ObjectView{
		Namespace: in.Namespace, Name: in.Name, Size: int64(len(data)), Digest: "sha256:" + hex.EncodeToString(sum[:]),
		Type: in.Type, By: access.From(ctx).Name, Origin: wire.OriginRoot,
	}
	if f.ObjectContents == nil {
		f.ObjectContents = map[string][]byte{}
	}
	f.ObjectContents[in.Namespace+"/"+in.Name] = data
	if i := f.objectAt(in.Namespace, in.Name); i >= 0 {
		v.Updated, f.ObjectList[i] = f.ObjectList[i].Updated, v
		return v, nil
	}
	f.ObjectList = append(f.ObjectList, v)
	return v, nil
}

// RemoveObject takes one out of ObjectList.
func (f *Fake) RemoveObject(_ context.Context, namespace, name string) (apiv1.ObjectView, error) {
	return do(f, "remove object", func() (apiv1.ObjectView, error) {
		i := f.objectAt(namespace, name)
		if i < 0 {
			return apiv1.ObjectView{}, wire.NoObject(namespace, name)
		}
		v := f.ObjectList[i]
		f.ObjectList = slices.Delete(f.ObjectList, i, i+1)
		return v, nil
	})
}

// Objects are ObjectList.
func (f *Fake) Objects(_ context.Context, namespace string) ([]apiv1.ObjectView, error) {
	return do(f, "objects", func() ([]apiv1.ObjectView, error) {
		out := []apiv1.ObjectView{}
		for _, v := range f.ObjectList {
			if namespace == "" || v.Namespace == namespace {
				out = append(out, v)
			}
		}
		slices.SortFunc(out, func(a, b apiv1.ObjectView) int { return strings.Compare(a.Name, b.Name) })
		return out, nil
	})
}

func (f *Fake) objectAt(namespace, name string) int {
	return slices.IndexFunc(f.ObjectList,
		func(v apiv1.ObjectView) bool { return v.Namespace == namespace && v.Name == name })
}
