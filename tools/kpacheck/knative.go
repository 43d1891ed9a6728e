package main

import (
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/serving/pkg/apis/autoscaling"
	"knative.dev/serving/pkg/apis/autoscaling/v1alpha1"
	"knative.dev/serving/pkg/autoscaler/config"
	"knative.dev/serving/pkg/autoscaler/metrics"
	"knative.dev/serving/pkg/autoscaler/scaling"

	"github.com/verge-edge/verge/internal/sim/autoscale"
)

// knative is Knative's own autoscaler of one service.
type knative struct {
	rps       bool
	collector *metrics.MetricCollector
	scaler    scaling.UniScaler
	pods      pods
}

var _ autoscale.Knative = (*knative)(nil)

var key = types.NamespacedName{Namespace: "kpacheck", Name: "service"}

// pods that are ready, as Knative asks for them.
type pods struct{ ready int }

func (p *pods) ReadyCount() (int, error)    { return p.ready, nil }
func (p *pods) NotReadyCount() (int, error) { return 0, nil }

// newKnative has Knative's defaults (config-autoscaler), where a pod can do this much
// of the metric. It begins without pods: one that begins with more panics for a minute, by the clock
// of the machine.
func newKnative(how autoscale.Algorithm, can float64) (*knative, error) {
	defaults, err := config.NewConfigFromMap(nil)
	if err != nil {
		return nil, fmt.Errorf("read Knative's defaults: %w", err)
	}
	panicWindow := time.Duration(defaults.PanicWindowPercentage / 100 * float64(defaults.StableWindow))
	log := zap.NewNop().Sugar()
	k := &knative{rps: how == autoscale.RPS}
	// A collection without a scraper scrapes nothing: Record tells it what it would have
	// found.
	k.collector = metrics.NewMetricCollector(func(*v1alpha1.Metric, *zap.SugaredLogger) (metrics.StatsScraper, error) {
		return nil, nil
	}, log)
	if err := k.collector.CreateOrUpdate(&v1alpha1.Metric{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec: v1alpha1.MetricSpec{StableWindow: defaults.StableWindow, PanicWindow: panicWindow,
			ScrapeTarget: "none"},
	}); err != nil {
		return nil, fmt.Errorf("create Knative's collection: %w", err)
	}
	metric := autoscaling.Concurrency
	if k.rps {
		metric = autoscaling.RPS
	}
	k.scaler = scaling.New(*attribute.EmptySet(), noop.NewMeterProvider(), key.Namespace, key.Name, k.collector,
		&k.pods, &scaling.DeciderSpec{
			MaxScaleUpRate: defaults.MaxScaleUpRate, MaxScaleDownRate: defaults.MaxScaleDownRate, ScalingMetric: metric,
			TargetValue: can * defaults.ContainerConcurrencyTargetFraction, TotalValue: can,
			PanicThreshold: defaults.PanicThresholdPercentage / 100,
			StableWindow:   defaults.StableWindow, ScaleDownDelay: defaults.ScaleDownDelay, Reachable: true,
		})
	return k, nil
}

// Observe is what the scraper would record.
func (k *knative) Observe(value float64, now time.Time) {
	stat := metrics.Stat{AverageConcurrentRequests: value}
	if k.rps {
		stat = metrics.Stat{RequestCount: value}
	}
	k.collector.Record(key, now, stat)
}

// Decide is not ok where Knative says that it does not know.
func (k *knative) Decide(ready int, now time.Time) (int, bool) {
	k.pods.ready = ready
	got := k.scaler.Scale(zap.NewNop().Sugar(), now)
	return int(got.DesiredPodCount), got.ScaleValid
}

// close ends what the collector does meanwhile.
func (k *knative) close() { k.collector.Delete(key.Namespace, key.Name) }
