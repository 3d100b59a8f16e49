# Sourced by the scenarios and by reference.sh: the small job that they run, and the bits that it must end with.
REFERENCE=$CLUSTER_STATE/reference REFERENCE_STEPS=1000

# A small job on stdout: JOB RANKS STEPS STRATEGY; it writes to the claim of its own name. With REFERENCE_STEPS it ends with the
# reference's bits, whatever its ranks and strategy.
small_job() {
  cat <<Y
apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {name: $1}
spec:
  ranks: $2
  output: {persistentVolumeClaim: {claimName: $1}}
  train:
    model:
      config: {vocab_size: 256, hidden_size: 64, intermediate_size: 128, num_hidden_layers: 2, num_attention_heads: 4,
               num_key_value_heads: 2, max_position_embeddings: 128}
    data: {train: operator, sequenceLength: 64}
    batch: {globalBatchSize: 8, microBatchSize: 1}
    steps: $3
    parallelism: {strategy: $4}
    checkpoint: {everySteps: 50}
    logging: {everySteps: 1}
Y
}

# What metrics.jsonl says of the mathematics.
losses() { grep -oE '"(step|loss|grad_norm|learning_rate)":[^,}]*' "$1/metrics.jsonl"; }
