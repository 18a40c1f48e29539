/* Constants of the ordered arithmetic (CONTRACT.md section 7), shared so that the independent implementations
 * of it can only differ in how they use them.
 *
 * exp(x) = 2^k * p(r), k = rint(x * log2(e)), r = x - k ln 2 in two steps (Cody and Waite 1980): LN2_HIGH has
 * 9 significant bits, so that k * LN2_HIGH is exact for |k| <= 2^15. p is the degree-7 polynomial of Cephes
 * expf (Moshier, netlib cephes/single/expf.c) on [-ln 2 / 2, ln 2 / 2]. Above OVERFLOW 2^k leaves f32; below
 * UNDERFLOW the result rounds to zero (half of the smallest subnormal is 2^-150). */
#ifndef SINKTRAP_ORDERED_H
#define SINKTRAP_ORDERED_H

#define SINKTRAP_EXP_OVERFLOW 88.7228394f     /* the float next to 128 ln 2 = 88.7228391117, above it */
#define SINKTRAP_EXP_UNDERFLOW (-103.972084f) /* -150 ln 2 = -103.97207708... */
#define SINKTRAP_EXP_LOG2E 1.44269504088896341f
#define SINKTRAP_EXP_LN2_HIGH 0.693359375f
#define SINKTRAP_EXP_LN2_LOW (-2.12194440e-4f)
#define SINKTRAP_EXP_C0 1.9875691500E-4f
#define SINKTRAP_EXP_C1 1.3981999507E-3f
#define SINKTRAP_EXP_C2 8.3334519073E-3f
#define SINKTRAP_EXP_C3 4.1665795894E-2f
#define SINKTRAP_EXP_C4 1.6666665459E-1f
#define SINKTRAP_EXP_C5 5.0000001201E-1f

#endif
