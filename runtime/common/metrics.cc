#include "runtime/common/metrics.h"

#include <fstream>
#include <sstream>

#include <prometheus/text_serializer.h>
#include <unistd.h>

namespace lockstep::common {

prometheus::Counter& Metrics::counter(const MetricName& name) {
  return prometheus::BuildCounter().Name(name.name).Help(name.help).Register(registry_).Add(
      name.labels);
}

prometheus::Gauge& Metrics::gauge(const MetricName& name) {
  return prometheus::BuildGauge().Name(name.name).Help(name.help).Register(registry_).Add(
      name.labels);
}

prometheus::Histogram& Metrics::histogram(const MetricName& name,
                                          const std::vector<double>& bounds) {
  return prometheus::BuildHistogram().Name(name.name).Help(name.help).Register(registry_).Add(
      name.labels, bounds);
}

std::string Metrics::text() const {
  return prometheus::TextSerializer().Serialize(registry_.Collect());
}

double resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  double total_pages = 0;
  double resident_pages = 0;
  if (!(statm >> total_pages >> resident_pages)) return 0;
  return resident_pages * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    std::istringstream fields(line);
    std::string key;
    double kibibytes = 0;
    if (fields >> key >> kibibytes && key == "VmHWM:") return kibibytes * 1024;
  }
  return 0;
}

}  // namespace lockstep::common
