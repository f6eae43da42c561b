// torch-sys writes these functions in Rust and calls them from C++, to read and write weights in streams. flow does
// neither (its weights are safetensors), so here each says that it failed.
#include <cstddef>
#include <cstdint>
#include <torch/version.h>

// The release of PyTorch that the library was compiled for.
extern "C" const char *flow_torch_release() { return TORCH_VERSION; }

#define NEVER extern "C" __attribute__((visibility("hidden")))

NEVER bool tch_write_stream_destructor(void *) { return false; }
NEVER bool tch_write_stream_write(void *, const uint8_t *, size_t, size_t *) { return false; }
NEVER bool tch_read_stream_destructor(void *) { return false; }
NEVER bool tch_read_stream_stream_position(void *, uint64_t *) { return false; }
NEVER bool tch_read_stream_seek_start(void *, uint64_t, uint64_t *) { return false; }
NEVER bool tch_read_stream_seek_end(void *, int64_t, uint64_t *) { return false; }
NEVER bool tch_read_stream_read(void *, uint8_t *, size_t, size_t *) { return false; }
