// Which of its two targets a file is being compiled for. Every source below cuda_impl/ except the executor is
// compiled twice, for the executor ("simt") and for a GPU ("cuda"), and both are linked into one program:
// everything lives in the namespace of its target.
#pragma once

#if defined(SINKTRAP_TARGET_GPU)
#define SINKTRAP_TARGET on_gpu
#define SINKTRAP_ON_GPU 1
#else
#define SINKTRAP_TARGET on_simt
#define SINKTRAP_ON_GPU 0
#endif
