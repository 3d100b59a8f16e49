# Ranks on CPU: the runtime and its launcher, the shared objects that they load, and the quickstart's corpus. Build from the root:
#   docker build -f docker/runtime-cpu.Dockerfile -t REGISTRY/lockstep/runtime-cpu:0.1.0 .
ARG BASE=rust:1.95-slim-bookworm
FROM ${BASE} AS build
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates make
COPY . /src
WORKDIR /src
ENV LOCKSTEP_CACHE=/cache
RUN tools/setup.sh build && cmake --preset release -DLOCKSTEP_PYTHON_SITE="$(tools/setup.sh print-site)" \
    && cmake --build build/release --target lockstep-runtime lockstep-launch
# A shell and the little that a script in a manifest or a look around by `kubectl exec` takes; `helm test` is such a script.
RUN docker/image_root.sh /root-of-image build/bin/lockstep-runtime build/bin/liblockstep-gloo.so build/bin/lockstep-launch \
    /bin/sh /bin/bash /bin/cat /bin/grep /bin/ls /bin/sleep

FROM scratch
LABEL org.opencontainers.image.title="Lockstep runtime for CPU" org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /root-of-image /
# The working folder holds what the quickstart's relative paths name.
COPY examples /opt/lockstep/examples
COPY operator /opt/lockstep/operator
COPY runtime /opt/lockstep/runtime
COPY tests /opt/lockstep/tests
ENV PATH=/usr/local/bin SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
WORKDIR /opt/lockstep
USER 65532:65532
CMD ["lockstep-runtime"]
