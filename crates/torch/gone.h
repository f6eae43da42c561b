// Functions that torch-sys calls and that newer releases of PyTorch took out. flow needs none of them; each ends with an error.
#include "torch_api.h"
#include <torch/version.h>

#define GONE(type, name) \
  template <class... Each> type name(const Each &...) { throw std::runtime_error("this release of PyTorch has no " #name); }

namespace torch {
#if TORCH_VERSION_MINOR >= 13
#define align_as(other) alias(); throw std::runtime_error("this release of PyTorch has no align_as")
GONE(std::vector<Tensor>, align_tensors)
#endif
#if TORCH_VERSION_MINOR >= 14
GONE(Tensor, cholesky)
GONE(Tensor, cholesky_out)
typedef std::tuple<Tensor, Tensor> Two;
GONE(Two, qr)
GONE(Two, qr_out)
#endif
}
