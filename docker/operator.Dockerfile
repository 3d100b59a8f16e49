# The operator: one binary and the shared libraries that it names. Build from the root:
#   docker build -f docker/operator.Dockerfile -t REGISTRY/lockstep/operator:0.1.0 .
FROM debian:12-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates cmake g++ make ninja-build \
    libdnnl-dev libcivetweb-dev libcli11-dev libcpp-httplib-dev libfmt-dev libgmock-dev libgtest-dev \
    libspdlog-dev libssl-dev libyaml-cpp-dev nlohmann-json3-dev prometheus-cpp-dev
COPY . /src
WORKDIR /src
RUN cmake --preset no-torch -DLOCKSTEP_BINARY_DIR=/out && cmake --build build/no-torch --target lockstep-operator lockstep

FROM debian:12-slim
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates libcivetweb1 libcpp-httplib0.11 libfmt9 \
    libspdlog1.10 libssl3 libyaml-cpp0.7 libprometheus-cpp-core1.0 && rm -rf /var/lib/apt/lists/*
COPY --from=build /out/lockstep-operator /out/lockstep /usr/local/bin/
USER 65532:65532
ENTRYPOINT ["lockstep-operator"]
