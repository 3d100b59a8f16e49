# Ranks on CPU: the runtime and its launcher, the five files of LibTorch that a CPU program needs, and the quickstart's corpus.
#   docker build -f docker/runtime-cpu.Dockerfile -t REGISTRY/lockstep/runtime-cpu:0.1.0 .
FROM rust:1.95-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates make
COPY . /src
WORKDIR /src
ENV LOCKSTEP_CACHE=/cache
RUN tools/setup.sh build && cmake --preset release -DLOCKSTEP_PYTHON_SITE="$(tools/setup.sh print-site)" \
    -DCMAKE_INSTALL_RPATH='$ORIGIN/../torch/lib;$ORIGIN/../nvidia/cu13/lib' -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON \
    && cmake --build build/release --target lockstep-runtime
RUN site=$(tools/setup.sh print-site) && mkdir -p /out/bin /out/torch/lib /out/nvidia/cu13/lib \
    && cp build/bin/lockstep-runtime build/bin/lockstep-launch /out/bin/ \
    && cp "$site"/torch/lib/libtorch_cpu.so "$site"/torch/lib/libc10.so "$site"/torch/lib/libgomp.so.1 /out/torch/lib/ \
    && cp "$site"/nvidia/cu13/lib/libcupti.so.13 "$site"/nvidia/cu13/lib/libcudart.so.13 /out/nvidia/cu13/lib/ \
    && strip --strip-unneeded /out/torch/lib/libtorch_cpu.so

FROM debian:12-slim
RUN apt-get update && apt-get install -y --no-install-recommends libcivetweb1 libcpp-httplib0.11 libdnnl2 libfmt9 \
    libspdlog1.10 libssl3 libyaml-cpp0.7 libprometheus-cpp-core1.0 && rm -rf /var/lib/apt/lists/*
COPY --from=build /out /opt/lockstep
# The working folder holds what the quickstart's relative paths name.
COPY examples /opt/lockstep/examples
COPY operator /opt/lockstep/operator
COPY runtime /opt/lockstep/runtime
COPY tests /opt/lockstep/tests
ENV PATH=/opt/lockstep/bin:$PATH
WORKDIR /opt/lockstep
USER 65532:65532
CMD ["lockstep-runtime"]
