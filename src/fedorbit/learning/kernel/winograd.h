/* One-dimensional Winograd convolution F(4, 5): four neighbouring outputs of a 5-tap filter with
 * 8 multiplications instead of 20.
 *
 *     y = A' [ (G w) * (B' d) ]        d: 8 inputs, w: 5 taps, y: 4 outputs
 *
 * Interpolation points 0, +-1, +-2, +-1/2 and infinity. The products of all input channels and
 * kernel rows are summed before A' is applied, so A' and B' cost little.
 */
#ifndef FEDORBIT_WINOGRAD_H
#define FEDORBIT_WINOGRAD_H

#include "simd.h"

#define TAPS 5          /* kernel width and height of both convolutions */
#define TILE_OUTPUTS 4  /* outputs of one tile */
#define TILE_INPUTS 8   /* TILE_OUTPUTS + TAPS - 1; also the number of products */

/* G w: row p is scale[p] * (1, a, a^2, a^3, a^4) for the point a. */
static inline void winograd_kernel(const float w[TAPS], float u[TILE_INPUTS]) {
    static const double point[TILE_INPUTS - 1] = {0, 1, -1, 2, -2, 0.5, -0.5};
    static const double scale[TILE_INPUTS - 1] = {1,        -2.0 / 9,  -2.0 / 9, 1.0 / 90,
                                                  1.0 / 90, 32.0 / 45, 32.0 / 45};
    for (int p = 0; p < TILE_INPUTS - 1; p++) {
        double value = w[TAPS - 1];
        for (int k = TAPS - 2; k >= 0; k--) value = value * point[p] + w[k];
        u[p] = (float)(scale[p] * value);
    }
    u[TILE_INPUTS - 1] = w[TAPS - 1];
}

/* B' d. The points come in pairs +-a, whose rows share an even part and differ in an odd part. */
TILE_FUNCTION void winograd_input(const vec d[TILE_INPUTS], vec u[TILE_INPUTS]) {
    const vec c525 = _mm256_set1_ps(5.25f), c425 = _mm256_set1_ps(4.25f);
    const vec c025 = _mm256_set1_ps(0.25f), c125 = _mm256_set1_ps(1.25f);
    const vec c4 = _mm256_set1_ps(4.0f), c5 = _mm256_set1_ps(5.0f);
    const vec c05 = _mm256_set1_ps(0.5f), c25 = _mm256_set1_ps(2.5f), c2 = _mm256_set1_ps(2.0f);

    u[0] = _mm256_fmadd_ps(_mm256_sub_ps(d[4], d[2]), c525, _mm256_sub_ps(d[0], d[6]));
    u[7] = _mm256_fmadd_ps(_mm256_sub_ps(d[3], d[5]), c525, _mm256_sub_ps(d[7], d[1]));

    const vec even1 = _mm256_fnmadd_ps(d[4], c425, _mm256_add_ps(d[2], d[6]));
    const vec odd1 = _mm256_fnmadd_ps(d[3], c425, _mm256_add_ps(d[1], d[5]));
    u[1] = _mm256_add_ps(even1, odd1);
    u[2] = _mm256_sub_ps(even1, odd1);

    const vec middle = _mm256_mul_ps(d[3], c25);
    const vec even2 = _mm256_fnmadd_ps(d[4], c125, _mm256_fmadd_ps(d[2], c025, d[6]));
    const vec odd2 = _mm256_fmadd_ps(d[1], c05, _mm256_fmsub_ps(d[5], c2, middle));
    u[3] = _mm256_add_ps(even2, odd2);
    u[4] = _mm256_sub_ps(even2, odd2);

    const vec even3 = _mm256_fnmadd_ps(d[4], c5, _mm256_fmadd_ps(d[2], c4, d[6]));
    const vec odd3 = _mm256_fmadd_ps(d[5], c05, _mm256_fmsub_ps(d[1], c2, middle));
    u[5] = _mm256_add_ps(even3, odd3);
    u[6] = _mm256_sub_ps(even3, odd3);
}

/* A' m. */
TILE_FUNCTION void winograd_output(const vec m[TILE_INPUTS], vec y[TILE_OUTPUTS]) {
    const vec sum1 = _mm256_add_ps(m[1], m[2]), diff1 = _mm256_sub_ps(m[1], m[2]);
    const vec sum2 = _mm256_add_ps(m[3], m[4]), diff2 = _mm256_sub_ps(m[3], m[4]);
    const vec sum3 = _mm256_add_ps(m[5], m[6]), diff3 = _mm256_sub_ps(m[5], m[6]);
    y[0] = _mm256_add_ps(_mm256_add_ps(m[0], sum1), _mm256_add_ps(sum2, sum3));
    y[1] = _mm256_fmadd_ps(_mm256_set1_ps(2.0f), diff2,
                           _mm256_fmadd_ps(_mm256_set1_ps(0.5f), diff3, diff1));
    y[2] = _mm256_fmadd_ps(_mm256_set1_ps(4.0f), sum2,
                           _mm256_fmadd_ps(_mm256_set1_ps(0.25f), sum3, sum1));
    y[3] = _mm256_fmadd_ps(_mm256_set1_ps(8.0f), diff2,
                           _mm256_fmadd_ps(_mm256_set1_ps(0.125f), diff3,
                                           _mm256_add_ps(diff1, m[7])));
}

#endif
