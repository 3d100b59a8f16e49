# Ranks on NVIDIA GPUs: what runtime-cpu has, and the kernels, cuBLAS and CUDA's runtime. The driver (580 or newer) comes from the node,
# by NVIDIA's container runtime. Build from the root:
#   docker build -f docker/runtime.Dockerfile -t REGISTRY/lockstep/runtime:0.1.0 .
ARG BASE=rust:1.95-slim-bookworm
FROM ${BASE} AS build
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates make
COPY . /src
WORKDIR /src
ENV LOCKSTEP_CACHE=/cache
RUN tools/setup.sh build && tools/setup.sh cuda && cmake --preset release -DLOCKSTEP_PYTHON_SITE="$(tools/setup.sh print-site)" \
      -DWITH_CUDA=ON -DLOCKSTEP_CUDA_TOOLKIT="$(tools/setup.sh print-cuda)" \
    && cmake --build build/release --target lockstep-runtime lockstep-launch lockstep_cuda
# A shell and the little that a script in a manifest or a look around by `kubectl exec` takes.
RUN docker/image_root.sh /root-of-image build/bin/lockstep-runtime build/bin/liblockstep-gloo.so build/bin/liblockstep-cuda.so \
    build/bin/lockstep-launch /bin/sh /bin/bash /bin/cat /bin/grep /bin/ls /bin/sleep

FROM scratch
LABEL org.opencontainers.image.title="Lockstep runtime for NVIDIA GPUs" org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /root-of-image /
# The working folder holds what the quickstart's relative paths name.
COPY examples /opt/lockstep/examples
COPY operator /opt/lockstep/operator
COPY runtime /opt/lockstep/runtime
COPY tests /opt/lockstep/tests
# NVIDIA_*: which GPUs and which parts of the driver the container runtime puts into the container.
ENV PATH=/usr/local/bin SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt LOCKSTEP_DEVICE=cuda \
    NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
WORKDIR /opt/lockstep
USER 65532:65532
CMD ["lockstep-runtime"]
