"""usage: dashboards.py FOLDER
Writes the three dashboards of helm/lockstep/dashboards: what is on them stands here, the JSON around it is made.
In a query M stands for the chosen scrape jobs and instances, J for the chosen namespace and TrainingJob.
"""
import json
import pathlib
import sys

M = 'job=~"$job", instance=~"$instance"'
# Two operators may tell of the same job while one takes over: max makes one series of theirs.
BY_JOB = "max by (namespace, trainingjob)"
DCGM = "of the DCGM exporter, where it runs; found by the rank's pod."


def panel(title, description, unit, *queries, kind="timeseries", width=8, stack=False):
    return {"title": title, "description": description, "unit": unit, "queries": queries, "kind": kind, "width": width, "stack": stack}


def stat(title, description, unit, query):
    return panel(title, description, unit, (query, ""), kind="stat", width=4)


def row(title):
    return {"row": title}


FLEET = [
    row("Now"),
    stat("Running", "Jobs whose ranks all run.", "short", f'sum({BY_JOB} (lockstep_job_state{{M, N, state="Running"}}))'),
    stat("Waiting", "Jobs that are Pending or Starting: not all ranks run yet.", "short",
         f'sum({BY_JOB} (lockstep_job_state{{M, N, state=~"Pending|Starting"}}))'),
    stat("Restarting", "Jobs between a failure and their next attempt.", "short", f'sum({BY_JOB} (lockstep_job_state{{M, N, state="Restarting"}}))'),
    stat("Failed in a day", "Jobs that failed within the last 24 hours and were not deleted.", "short",
         f'count({BY_JOB} (lockstep_job_completion_timestamp_seconds{{M, N, outcome="Failed"}}) > time() - 86400) or vector(0)'),
    stat("Goodput", "Productive time of all unfinished jobs, as a share of their time beside queued and suspended.", "percentunit",
         f'sum({BY_JOB} (lockstep_job_phase_seconds{{M, N, phase="productive"}})) / '
         '(sum(max by (namespace, trainingjob, phase) (lockstep_job_phase_seconds{M, N, phase!~"queued|suspended"})) > 0)'),
    stat("GPU hours", "Hours that ranks with a GPU ran in the chosen time, to the minute.", "h",
         "sum(count_over_time(lockstep_gpu_utilization_ratio{M, N}[$__range:1m])) / 60"),
    row("Jobs"),
    panel("Jobs by state", "All jobs that the operator sees, finished ones included.", "short", ("max by (state) (lockstep_jobs{M})", "{{state}}"), stack=True),
    panel("Ranks", "Ranks wanted and ranks that run, over all jobs.", "short",
          (f"sum({BY_JOB} (lockstep_job_ranks_desired{{M, N}}))", "wanted"), (f"sum({BY_JOB} (lockstep_job_ranks_running{{M, N}}))", "running")),
    panel("Rank hours", "Hours that ranks ran in the chosen time, by job, to the minute; GPU hours where a rank has one GPU.", "h",
          (f"sum_over_time({BY_JOB} (lockstep_job_ranks_running{{M, N}})[$__range:1m]) / 60", "{{namespace}}/{{trainingjob}}"), kind="bargauge"),
    panel("Progress", "Steps made, as a share of all steps.", "percentunit",
          (f"{BY_JOB} (lockstep_job_step{{M, N}}) / ({BY_JOB} (lockstep_job_total_steps{{M, N}}) > 0)", "{{namespace}}/{{trainingjob}}"), kind="bargauge"),
    panel("Tokens per second", "As told by rank 0 of every job.", "short",
          (f"{BY_JOB} (lockstep_job_tokens_per_second{{M, N}})", "{{namespace}}/{{trainingjob}}"), stack=True),
    panel("GPU utilization", "Mean over the ranks of a job, as their own driver tells it.", "percentunit",
          ("avg by (namespace, trainingjob) (lockstep_gpu_utilization_ratio{M, N})", "{{namespace}}/{{trainingjob}}")),
    row("Trouble"),
    panel("Where the time went", "Seconds of all unfinished jobs by phase, since each began.", "s",
          ("sum by (phase) (max by (namespace, trainingjob, phase) (lockstep_job_phase_seconds{M, N}))", "{{phase}}"), stack=True),
    panel("Restarts", "Charged restarts of every job.", "short", (f"{BY_JOB} (lockstep_job_restarts{{M, N}}) > 0", "{{namespace}}/{{trainingjob}}")),
    panel("Stalled and straggling", "1 while no rank makes steps, or one keeps the others waiting.", "short",
          (f"{BY_JOB} (lockstep_job_stalled{{M, N}}) > 0", "{{namespace}}/{{trainingjob}} stalled"),
          (f"{BY_JOB} (lockstep_job_straggling{{M, N}}) > 0", "{{namespace}}/{{trainingjob}} straggling")),
]

JOB = [
    row("At a glance"),
    stat("Step", "Last finished step.", "short", "max(lockstep_job_step{M, J})"),
    stat("Progress", "Steps made, as a share of all steps.", "percentunit", "max(lockstep_job_step{M, J}) / (max(lockstep_job_total_steps{M, J}) > 0)"),
    stat("Goodput", "Productive time, as a share of all time but queued and suspended.", "percentunit",
         'max(lockstep_job_phase_seconds{M, J, phase="productive"}) / '
         '(sum(max by (phase) (lockstep_job_phase_seconds{M, J, phase!~"queued|suspended"})) > 0)'),
    stat("Restarts", "Charged restarts since the job was made.", "short", "max(lockstep_job_restarts{M, J})"),
    stat("Ranks running", "Ranks of the present attempt that run.", "short", "max(lockstep_job_ranks_running{M, J})"),
    stat("Steps at risk", "Steps since the newest checkpoint: what a failure now would cost.", "short",
         "max(lockstep_job_step{M, J}) - max(lockstep_job_checkpoint_step{M, J})"),
    row("Learning"),
    panel("Loss", "Mean loss of the last step's global batch, and of the last evaluation.", "none",
          ('lockstep_loss{M, J, rank="0"}', "training"), ('lockstep_validation_loss{M, J, rank="0"}', "validation")),
    panel("Gradient norm", "Before clipping.", "none", ('lockstep_gradient_norm{M, J, rank="0"}', "norm")),
    panel("Learning rate", "Of the last step.", "none", ('lockstep_learning_rate{M, J, rank="0"}', "rate")),
    panel("Skipped steps", "Steps of the run whose loss or gradient was not finite; in fp16 also the loss scale.", "none",
          ('lockstep_skipped_steps{M, J, rank="0"}', "skipped"), ('lockstep_loss_scale{M, J, rank="0"}', "loss scale")),
    row("Speed"),
    panel("Tokens per second", "Over all ranks.", "short", ('lockstep_tokens_per_second{M, J, rank="0"}', "tokens/s")),
    panel("Model FLOPs utilization", "Model FLOP/s as a share of the ranks' peak; there if logging.peakFlopsPerRank is given.", "percentunit",
          ('lockstep_mfu_ratio{M, J, rank="0"}', "MFU")),
    panel("Model FLOP/s", "Over all ranks; what activation checkpointing computes again does not count.", "flops",
          ('lockstep_flops_per_second{M, J, rank="0"}', "FLOP/s")),
    panel("Step time", "Median and 99th percentile over all ranks.", "s",
          ("histogram_quantile(0.5, sum by (le) (rate(lockstep_step_seconds_bucket{M, J}[$__rate_interval])))", "median"),
          ("histogram_quantile(0.99, sum by (le) (rate(lockstep_step_seconds_bucket{M, J}[$__rate_interval])))", "p99")),
    panel("Where a step's time goes", "Seconds per second that the training thread of a rank spends in each part, mean over the ranks.", "percentunit",
          ("avg by (part) (rate(lockstep_step_part_seconds_total{M, J}[$__rate_interval]))", "{{part}}"), stack=True),
    row("Ranks"),
    panel("Work by rank", "Work of each rank in the last step, without waits for others: who is high here keeps the others waiting.", "s",
          ("max by (rank) (lockstep_busy_seconds{M, J})", "rank {{rank}}")),
    panel("Skew", "Work of the slowest rank beyond the median's.", "s",
          ('lockstep_busy_max_seconds{M, J, rank="0"} - lockstep_busy_median_seconds{M, J, rank="0"}', "slowest - median")),
    panel("Slowest rank", "The rank with the most work in the last step.", "short", ('lockstep_slowest_rank{M, J, rank="0"}', "rank")),
    panel("Resident memory", "Of each rank's process, now.", "bytes", ("max by (rank) (lockstep_resident_bytes{M, J})", "rank {{rank}}")),
    panel("Buffers", "Weights, gradients, moments, activations and sums of each rank; and the most they ever were.", "bytes",
          ("max by (rank) (lockstep_buffer_bytes{M, J})", "rank {{rank}}"), ("max(lockstep_buffer_peak_bytes{M, J})", "peak of any")),
    row("Failures and checkpoints"),
    panel("Attempt and restarts", "A restart by suspension, scaling or preemption raises the attempt alone.", "short",
          ("max(lockstep_job_attempt{M, J})", "attempt"), ("max(lockstep_job_restarts{M, J})", "restarts")),
    panel("Where the job's time went", "Seconds by phase since the job was made.", "s", ("max by (phase) (lockstep_job_phase_seconds{M, J})", "{{phase}}"), stack=True),
    panel("Lost steps", "Steps that had to be made again.", "short", ("max(lockstep_job_lost_steps{M, J})", "lost")),
    panel("Newest checkpoint", "Its step, beside the last finished step.", "short",
          ("max(lockstep_job_step{M, J})", "step"), ("max(lockstep_job_checkpoint_step{M, J})", "checkpoint")),
    panel("Time of a checkpoint", "From its begin until it was known to be published; training goes on meanwhile.", "s",
          ("max(lockstep_checkpoint_seconds{M, J})", "slowest rank")),
    panel("Standstill for checkpoints", "Seconds per second that training stood still to begin one.", "percentunit",
          ("max(rate(lockstep_checkpoint_stall_seconds_total{M, J}[$__rate_interval]))", "slowest rank")),
    row("GPUs"),
    panel("GPU utilization", "Share of time in which the rank's GPU was at work, as the rank's own driver tells it.", "percentunit",
          ("max by (rank) (lockstep_gpu_utilization_ratio{M, J})", "rank {{rank}}")),
    panel("GPU memory", f"Used frame buffer, {DCGM}", "mbytes", ("DCGM(DCGM_FI_DEV_FB_USED)", "{{pod}} GPU {{gpu}}")),
    panel("GPU power", f"Power, {DCGM}", "watt", ("DCGM(DCGM_FI_DEV_POWER_USAGE)", "{{pod}} GPU {{gpu}}")),
    panel("GPU temperature", f"Temperature, {DCGM}", "celsius", ("DCGM(DCGM_FI_DEV_GPU_TEMP)", "{{pod}} GPU {{gpu}}")),
]

Q = 'M, controller="trainingjob"'
OURS = "and on (job, instance) lockstep_jobs_without_series{M}"  # these two names are every controller's
OPERATOR = [
    row("Queue"),
    panel("Depth", "Jobs that wait to be looked at.", "short", (f"max by (instance) (workqueue_depth{{{Q}}})", "{{instance}}")),
    panel("Additions and retries", "Jobs put into the queue per second; retries are those after a failure.", "ops",
          (f"sum(rate(workqueue_adds_total{{{Q}}}[$__rate_interval]))", "added"), (f"sum(rate(workqueue_retries_total{{{Q}}}[$__rate_interval]))", "retried")),
    panel("Wait and work", "99th percentile of the time in the queue, and at work on a job.", "s",
          (f"histogram_quantile(0.99, sum by (le) (rate(workqueue_queue_duration_seconds_bucket{{{Q}}}[$__rate_interval])))", "waiting"),
          (f"histogram_quantile(0.99, sum by (le) (rate(workqueue_work_duration_seconds_bucket{{{Q}}}[$__rate_interval])))", "working")),
    panel("Work under way", "What the jobs now at work have taken so far, all together, and the longest of them.", "s",
          (f"max(workqueue_unfinished_work_seconds{{{Q}}})", "together"), (f"max(workqueue_longest_running_processor_seconds{{{Q}}})", "longest")),
    row("Reconcile"),
    panel("Reconciles", "By result.", "ops", (f"sum by (result) (rate(controller_runtime_reconcile_total{{{Q}}}[$__rate_interval]))", "{{result}}")),
    panel("Errors", "Reconciles that failed and will be repeated.", "ops",
          (f"sum(rate(controller_runtime_reconcile_errors_total{{{Q}}}[$__rate_interval]))", "errors")),
    panel("Time of a reconcile", "Median and 99th percentile.", "s",
          (f"histogram_quantile(0.5, sum by (le) (rate(controller_runtime_reconcile_time_seconds_bucket{{{Q}}}[$__rate_interval])))", "median"),
          (f"histogram_quantile(0.99, sum by (le) (rate(controller_runtime_reconcile_time_seconds_bucket{{{Q}}}[$__rate_interval])))", "p99")),
    panel("Workers", "At a job, of how many.", "short", (f"sum(controller_runtime_active_workers{{{Q}}})", "at work"),
          (f"sum(controller_runtime_max_concurrent_reconciles{{{Q}}})", "all")),
    row("API server"),
    panel("Requests", "By status code.", "reqps", (f"sum by (code) (rate(rest_client_requests_total{{M}}[$__rate_interval]) {OURS})", "{{code}}")),
    panel("Latency", "99th percentile, by verb. Watches are not in it.", "s",
          (f"histogram_quantile(0.99, sum by (le, verb) (rate(rest_client_request_duration_seconds_bucket{{M}}[$__rate_interval]) {OURS}))", "{{verb}}")),
    row("Process"),
    panel("Resident memory", "Of each operator.", "bytes", (f"process_resident_memory_bytes{{M}} {OURS}", "{{instance}}")),
    panel("Jobs by state", "All jobs that the operator sees.", "short", ("max by (state) (lockstep_jobs{M})", "{{state}}"), stack=True),
    panel("Jobs without series", "Unfinished jobs beyond the limit of 1,000 that have series of their own.", "short",
          ("max(lockstep_jobs_without_series{M})", "jobs")),
]

SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def variable(name, label, query, many):
    made = {"name": name, "label": label, "type": "query", "datasource": SOURCE, "query": query, "definition": query, "refresh": 2, "sort": 1,
            "multi": many, "includeAll": many, "hide": 0}
    if many:
        made.update(allValue=".+", current={"text": "All", "value": "$__all"})
    return made


def dcgm(name):
    """The pod of a GPU is in `pod`, or in `exported_pod` where Prometheus does not honour the exporter's labels."""
    pods = f'label_replace(label_replace({name}, "pod", "$1", "exported_pod", "(.+)"), "namespace", "$1", "exported_namespace", "(.+)")'
    return f"max by (namespace, pod, gpu) ({pods}) and on (namespace, pod) lockstep_step{{M, J}}"


def expand(query):
    if query.startswith("DCGM("):
        query = dcgm(query[5:-1])
    for short, full in (("M", M), ("N", 'namespace=~"$namespace"'), ("J", 'namespace=~"$namespace", trainingjob=~"$trainingjob"')):
        query = query.replace(f"{{{short}", "{" + full).replace(f", {short}}}", ", " + full + "}").replace(f", {short},", ", " + full + ",")
    return query


def lay_out(parts):
    made, x, y = [], 0, 0
    for number, part in enumerate(parts, 1):
        if "row" in part:
            y += 8 if x else 0
            made.append({"id": number, "type": "row", "title": part["row"], "collapsed": False, "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}, "panels": []})
            x, y = 0, y + 1
            continue
        if x + part["width"] > 24:
            x, y = 0, y + 8
        custom = {"fillOpacity": 20, "stacking": {"mode": "normal"}} if part["stack"] else {}
        made.append({
            "id": number, "type": part["kind"], "title": part["title"], "description": part["description"], "datasource": SOURCE,
            "gridPos": {"x": x, "y": y, "w": part["width"], "h": 8},
            "fieldConfig": {"defaults": {"unit": part["unit"], "custom": custom}, "overrides": []},
            "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}} if part["kind"] == "timeseries" else {},
            "targets": [{"refId": chr(ord("A") + i), "datasource": SOURCE, "expr": expand(query), "legendFormat": legend}
                        for i, (query, legend) in enumerate(part["queries"])]})
        x += part["width"]
    return made


def dashboard(name, title, description, seen_by, parts):
    variables = [{"name": "datasource", "label": "Data Source", "type": "datasource", "query": "prometheus", "hide": 0, "refresh": 1},
                 variable("job", "Scrape job", f"label_values({seen_by}, job)", True),
                 variable("instance", "Instance", f'label_values({seen_by[:-1]}, job=~"$job"}}, instance)', True)]
    if name != "operator":
        variables.append(variable("namespace", "Namespace", 'label_values(lockstep_job_state{job=~"$job"}, namespace)', name == "jobs"))
    if name == "job":
        variables.append(variable("trainingjob", "TrainingJob", 'label_values(lockstep_job_state{job=~"$job", namespace=~"$namespace"}, trainingjob)', False))
    return {"uid": f"lockstep-{name}", "title": title, "description": description, "tags": ["lockstep"], "editable": False, "schemaVersion": 39,
            "refresh": "30s", "time": {"from": "now-3h", "to": "now"}, "timezone": "", "graphTooltip": 1, "annotations": {"list": []},
            "links": [{"type": "dashboards", "title": "Lockstep", "tags": ["lockstep"], "keepTime": True}],
            "templating": {"list": variables}, "panels": lay_out(parts)}


def main(folder):
    ranks = '{__name__=~"lockstep_.+"}'
    for made in (dashboard("jobs", "Lockstep / Jobs", "All TrainingJobs: what runs, waits and fails, and what it is worth.", ranks, FLEET),
                 dashboard("job", "Lockstep / Job", "One TrainingJob: learning, speed, ranks, failures, GPUs.", ranks, JOB),
                 dashboard("operator", "Lockstep / Operator", "The operator: queue, reconciles, API server.", '{__name__="lockstep_jobs_without_series"}', OPERATOR)):
        (folder / f"{made['uid'].removeprefix('lockstep-')}.json").write_text(json.dumps(made, indent=1) + "\n")


main(pathlib.Path(sys.argv[1]))
