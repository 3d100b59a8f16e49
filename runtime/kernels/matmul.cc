#include "runtime/kernels/matmul.h"

#include <array>
#include <map>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include <dnnl.h>

#include "runtime/kernels/one_openmp_thread.h"

namespace lockstep::runtime {
namespace {

template <auto kDestroy>
struct Destroy {
  template <class T>
  void operator()(T* object) const {
    kDestroy(object);
  }
};
template <class Handle, auto kDestroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<kDestroy>>;

using Engine = Owned<dnnl_engine_t, &dnnl_engine_destroy>;
using Stream = Owned<dnnl_stream_t, &dnnl_stream_destroy>;
using Attributes = Owned<dnnl_primitive_attr_t, &dnnl_primitive_attr_destroy>;
using PostOps = Owned<dnnl_post_ops_t, &dnnl_post_ops_destroy>;
using Description = Owned<dnnl_primitive_desc_t, &dnnl_primitive_desc_destroy>;
using Primitive = Owned<dnnl_primitive_t, &dnnl_primitive_destroy>;
using Memory = Owned<dnnl_memory_t, &dnnl_memory_destroy>;

dnnl_data_type_t type_of(DType dtype) {
  return dtype == DType::kFp32 ? dnnl_f32 : dtype == DType::kBf16 ? dnnl_bf16 : dnnl_f16;
}

// Everything that the compiled code depends on.
struct Signature {
  DType dtype = DType::kFp32;
  GemmShape shape;
  Transpose a = Transpose::kNo, b = Transpose::kNo;
  int64_t a_leading = 0, b_leading = 0, c_leading = 0;
  float beta = 0;

  auto key() const {
    return std::tuple(dtype, shape.m, shape.n, shape.k, a, b, a_leading, b_leading, c_leading,
                      beta);
  }
  bool operator<(const Signature& other) const { return key() < other.key(); }
};

struct Product {
  Primitive primitive;
  Memory a, b, c;  // without data: that comes with each call
};

dnnl_memory_desc_t describe(DType dtype, int64_t rows, int64_t cols, int64_t leading,
                            Transpose transpose) {
  const std::array<dnnl_dim_t, 2> dims = {rows, cols};
  const bool is_transposed = transpose == Transpose::kYes;
  const std::array<dnnl_dim_t, 2> strides = {is_transposed ? 1 : leading,
                                             is_transposed ? leading : 1};
  dnnl_memory_desc_t description;
  dnnl_memory_desc_init_by_strides(&description, 2, dims.data(), type_of(dtype), strides.data());
  return description;
}

// A call of the library that failed; caught before it leaves this file.
struct Refused {
  dnnl_status_t status;
};
void require(dnnl_status_t status) {
  if (status != dnnl_success) throw Refused{status};
}

// What `create` makes through a pointer to a handle.
template <class Handle, class Create>
Handle made_by(Create create) {
  typename Handle::pointer raw = nullptr;
  require(create(&raw));
  return Handle(raw);
}

Memory make_memory(const dnnl_memory_desc_t& description, dnnl_engine_t engine) {
  return made_by<Memory>([&](dnnl_memory_t* raw) {
    return dnnl_memory_create(raw, &description, engine, DNNL_MEMORY_NONE);
  });
}

Product compile(const Signature& what, dnnl_engine_t engine) {
  const auto& [m, n, k] = what.shape;
  const dnnl_memory_desc_t a = describe(what.dtype, m, k, what.a_leading, what.a);
  const dnnl_memory_desc_t b = describe(what.dtype, k, n, what.b_leading, what.b);
  const dnnl_memory_desc_t c = describe(DType::kFp32, m, n, what.c_leading, Transpose::kNo);
  dnnl_matmul_desc_t operation;
  require(dnnl_matmul_desc_init(&operation, &a, &b, nullptr, &c));
  const auto attributes = made_by<Attributes>(dnnl_primitive_attr_create);
  const auto post_ops = made_by<PostOps>(dnnl_post_ops_create);
  if (what.beta != 0) {
    require(dnnl_post_ops_append_sum(post_ops.get(), what.beta));
    require(dnnl_primitive_attr_set_post_ops(attributes.get(), post_ops.get()));
  }
  const auto description = made_by<Description>([&](dnnl_primitive_desc_t* raw) {
    return dnnl_primitive_desc_create(raw, &operation, attributes.get(), engine, nullptr);
  });
  return {.primitive = made_by<Primitive>(
              [&](dnnl_primitive_t* raw) { return dnnl_primitive_create(raw, description.get()); }),
          .a = make_memory(a, engine),
          .b = make_memory(b, engine),
          .c = make_memory(c, engine)};
}

// The compiled products of one thread.
class Products {
 public:
  // Valid until the next call. Throws Refused.
  const Product& find(const Signature& what) {
    if (engine_ == nullptr) {
      engine_ =
          made_by<Engine>([](dnnl_engine_t* raw) { return dnnl_engine_create(raw, dnnl_cpu, 0); });
      stream_ = made_by<Stream>([this](dnnl_stream_t* raw) {
        return dnnl_stream_create(raw, engine_.get(), dnnl_stream_default_flags);
      });
    }
    const auto found = compiled_.find(what);
    if (found != compiled_.end()) return found->second;
    if (compiled_.size() >= kMaxProducts) compiled_.clear();
    return compiled_.emplace(what, compile(what, engine_.get())).first->second;
  }

  dnnl_stream_t stream() const { return stream_.get(); }

 private:
  // A training step has about thirty; only callers with ever new shapes come near.
  static constexpr size_t kMaxProducts = 512;

  Engine engine_;
  Stream stream_;
  std::map<Signature, Product> compiled_;
};

Products& products_of_this_thread() {
  thread_local Products products;
  return products;
}

}  // namespace

int matmul(const GemmShape& shape, ConstMatrix a, ConstMatrix b, float beta, float* c,
           int64_t c_leading) {
  const OneOpenMpThread one_thread;
  Products& products = products_of_this_thread();
  try {
    const Product& product = products.find({.dtype = a.data.dtype,
                                            .shape = shape,
                                            .a = a.transpose,
                                            .b = b.transpose,
                                            .a_leading = a.leading,
                                            .b_leading = b.leading,
                                            .c_leading = c_leading,
                                            .beta = beta});
    // The library takes pointers to mutable memory for operands that it only reads.
    require(dnnl_memory_set_data_handle(product.a.get(), const_cast<void*>(a.data.data)));
    require(dnnl_memory_set_data_handle(product.b.get(), const_cast<void*>(b.data.data)));
    require(dnnl_memory_set_data_handle(product.c.get(), c));
    const std::array<dnnl_exec_arg_t, 3> arguments = {{{DNNL_ARG_SRC, product.a.get()},
                                                       {DNNL_ARG_WEIGHTS, product.b.get()},
                                                       {DNNL_ARG_DST, product.c.get()}}};
    require(dnnl_primitive_execute(product.primitive.get(), products.stream(), arguments.size(),
                                   arguments.data()));
    require(dnnl_stream_wait(products.stream()));
  } catch (const Refused& refused) {
    return refused.status;
  }
  return dnnl_success;
}

bool matmul_takes(DType dtype) {
  const OneOpenMpThread one_thread;
  try {
    products_of_this_thread().find({.dtype = dtype,
                                    .shape = {16, 16, 16},
                                    .a_leading = 16,
                                    .b_leading = 16,
                                    .c_leading = 16,
                                    .beta = 1});
  } catch (const Refused&) {
    return false;
  }
  return true;
}

bool matmul_is_fast(DType dtype) {
  constexpr auto kBf16Bits = static_cast<unsigned>(dnnl_cpu_isa_avx512_core_bf16);
  const auto isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  const bool has_instructions = dtype == DType::kBf16 && (isa & kBf16Bits) == kBf16Bits;
  return has_instructions && matmul_takes(dtype);
}

}  // namespace lockstep::runtime
