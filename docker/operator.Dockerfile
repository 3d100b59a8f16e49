# The operator and the command line: two binaries and the shared objects that they load, on no distribution. Build from the root:
#   docker build -f docker/operator.Dockerfile -t REGISTRY/lockstep/operator:0.1.0 .
ARG BASE=debian:12-slim
FROM ${BASE} AS build
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates cmake g++ make ninja-build \
    libdnnl-dev libcivetweb-dev libcli11-dev libcpp-httplib-dev libfmt-dev libgmock-dev libgtest-dev \
    libspdlog-dev libssl-dev libyaml-cpp-dev nlohmann-json3-dev prometheus-cpp-dev
COPY . /src
WORKDIR /src
RUN cmake --preset no-torch -DLOCKSTEP_BINARY_DIR=/out && cmake --build build/no-torch --target lockstep-operator lockstep
RUN docker/image_root.sh /root-of-image /out/lockstep-operator /out/lockstep

FROM scratch
LABEL org.opencontainers.image.title="Lockstep operator" org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /root-of-image /
ENV PATH=/usr/local/bin
WORKDIR /
USER 65532:65532
ENTRYPOINT ["lockstep-operator"]
