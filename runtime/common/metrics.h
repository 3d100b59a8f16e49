// The metrics of one process, served as Prometheus text.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

namespace lockstep::common {

// Name, help text and labels of one time series.
struct MetricName {
  std::string name;
  std::string help;
  std::map<std::string, std::string> labels;
};

// Keeps the time series. Asking twice for the same name and labels gives the same series;
// references live as long as this object. Safe from any thread.
class Metrics {
 public:
  prometheus::Counter& counter(const MetricName& name);
  prometheus::Gauge& gauge(const MetricName& name);
  // `bounds`: ascending upper bounds of the buckets.
  prometheus::Histogram& histogram(const MetricName& name, const std::vector<double>& bounds);

  // All series in Prometheus' text format (content type kMetricsContentType).
  std::string text() const;

 private:
  prometheus::Registry registry_;
};

inline constexpr char kMetricsContentType[] = "text/plain; version=0.0.4; charset=utf-8";

// Bytes of memory that this process holds resident now; 0 if the system does not tell.
double resident_bytes();
// The most that it ever held resident; 0 if the system does not tell.
double peak_resident_bytes();

}  // namespace lockstep::common
