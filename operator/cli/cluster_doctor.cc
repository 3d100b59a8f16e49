#include "operator/cli/cluster_doctor.h"

#include <algorithm>

#include "operator/cli/exit_status.h"
#include "runtime/common/suggest.h"

namespace lockstep::cli {

using machine::Finding;

namespace {

constexpr const char* kInstall =
    "helm install lockstep helm/lockstep --namespace lockstep-system --create-namespace "
    "--set image.registry=REGISTRY";

Finding sound(std::string check, std::string text) {
  return {.check = std::move(check), .is_wrong = false, .text = std::move(text), .next = ""};
}

Finding broken(std::string check, std::string text, std::string next) {
  return {.check = std::move(check),
          .is_wrong = true,
          .text = std::move(text),
          .next = std::move(next)};
}

Finding judge_server(const ClusterView& view) {
  if (!view.refusal) return sound("server", view.server + " answers");
  return broken(
      "server", view.refusal->text,
      view.refusal->status == kForbidden ? "kubectl auth whoami" : "kubectl cluster-info");
}

Finding judge_crd(const ClusterView& view) {
  const std::string check = "crd";
  const std::string apply = "lockstep schema | kubectl apply --server-side --force-conflicts -f -";
  switch (view.crd) {
    case CrdView::kAbsent:
      return broken(check, "the cluster has no TrainingJobs", apply);
    case CrdView::kOther:
      return broken(check, "TrainingJobs are of another version of Lockstep than this program",
                    apply);
    case CrdView::kHidden:
      return sound(check, "TrainingJobs are known; of which version these rights do not tell");
    case CrdView::kUnknown:
      return broken(check, "the server fails to tell of TrainingJobs: " + view.crd_trouble,
                    "kubectl get --raw '/readyz?verbose'");
    case CrdView::kOurs:
      break;
  }
  return sound(check, "TrainingJobs are known, of this version");
}

std::string name_of(const OperatorView& view) {
  return view.name.empty() ? view.lease->ns + "/" + view.lease->name : view.ns + "/" + view.name;
}

bool leads(const OperatorView& view) {
  return view.lease && view.lease->is_renewed;
}

Finding judge_leader(const OperatorView& view) {
  const std::string check = "leader";
  if (!view.lease) return sound(check, name_of(view) + " runs alone, without leader election");
  const LeaseView& lease = *view.lease;
  const std::string next = "kubectl -n " + lease.ns + " get lease " + lease.name + " -o yaml";
  const std::string place = "the Lease " + lease.ns + "/" + lease.name;
  if (!lease.trouble.empty()) return broken(check, place + ": " + lease.trouble, next);
  if (lease.holder.empty()) return broken(check, place + " is nobody's: no operator leads", next);
  if (!lease.is_renewed) {
    return broken(check, place + " was not renewed by " + lease.holder + " for its duration", next);
  }
  return sound(check, lease.holder + " leads");
}

void judge_operator(const ClusterView& view, const OperatorView& found,
                    std::vector<Finding>& findings) {
  const std::string check = "operator";
  const bool runs = found.num_ready > 0 || leads(found);
  if (!runs && !found.name.empty()) {
    findings.push_back(broken(check, name_of(found) + " has no pod that is ready",
                              "kubectl -n " + found.ns +
                                  " describe pods -l "
                                  "app.kubernetes.io/component=operator"));
  } else if (!found.version.empty() && found.version != view.version) {
    findings.push_back(broken(
        check,
        name_of(found) + " is of version " + found.version + ", this program of " + view.version,
        "helm list --namespace " + found.ns));
  } else if (runs) {
    findings.push_back(sound(check, name_of(found) + " runs"));
  }
  findings.push_back(judge_leader(found));
  if (found.name.empty()) return;
  if (found.runtime_image.empty()) {
    findings.push_back(broken("runtime image",
                              name_of(found) + " names none: jobs without spec.image cannot start",
                              "kubectl -n " + found.ns + " edit deployment " + found.name));
  } else {
    const std::string& for_gpus = found.gpu_runtime_image;
    findings.push_back(sound(
        "runtime image", found.runtime_image + (for_gpus.empty() ? "" : ", for GPUs " + for_gpus)));
  }
}

void judge_operators(const ClusterView& view, std::vector<Finding>& findings) {
  for (const OperatorView& found : view.operators) judge_operator(view, found, findings);
  if (!view.operators.empty()) return;
  if (!view.operators_trouble.empty()) {
    findings.push_back(broken("operator",
                              "the server fails to list Deployments: " + view.operators_trouble,
                              "kubectl get --raw '/readyz?verbose'"));
  } else if (view.sees_deployments) {
    findings.push_back(broken("operator", "no Deployment of an operator is here", kInstall));
  } else {
    findings.push_back(sound(
        "operator", "these rights do not show one; --lease NAMESPACE/NAME looks at its Lease"));
  }
}

Finding judge_rights(const ClusterView& view) {
  const std::string check = "rights";
  if (!view.rights_trouble.empty()) {
    return broken(check, "the server fails to tell them: " + view.rights_trouble,
                  "kubectl auth can-i --list -n " + view.ns);
  }
  if (view.denied.empty()) return sound(check, "jobs may be made and looked at in " + view.ns);
  return broken(check, "in namespace " + view.ns + " you may not " + common::join(view.denied),
                "kubectl auth can-i --list -n " + view.ns);
}

}  // namespace

std::vector<Finding> judge_cluster(const ClusterView& view) {
  std::vector<Finding> findings = {judge_server(view)};
  if (view.refusal) return findings;
  findings.push_back(judge_crd(view));
  judge_operators(view, findings);
  findings.push_back(judge_rights(view));
  return findings;
}

}  // namespace lockstep::cli
