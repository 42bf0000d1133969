/* Lists of what is not zero, and sums along them. After a ReLU about half of a matrix of gradients
 * is zero, in no order that a blocked matrix product could use. */
#ifndef FEDORBIT_LIVE_H
#define FEDORBIT_LIVE_H

#include "workspace.h"

/* The lane order that brings lanes of a mask to the front. */
static inline ivec front_order(const Workspace *ws, unsigned mask) {
    return load_bytes((const uint8_t *)&ws->compress[mask]);
}

/* Lists the entries of a row of `count` values (a multiple of eight) that are not zero: the value,
 * and its number times `step`. */
static LiveRow collect_row(const Workspace *ws, const float *row, ptrdiff_t count, int step,
                           LiveRow list) {
    const ivec lanes = _mm256_mullo_epi32(lane_numbers(), _mm256_set1_epi32(step));
    list.count = 0;
    for (ptrdiff_t i = 0; i < count; i += LANES) {
        const vec value = _mm256_loadu_ps(row + i);
        const vec live = _mm256_cmp_ps(value, _mm256_setzero_ps(), _CMP_NEQ_UQ); /* also a NaN */
        const unsigned mask = (unsigned)_mm256_movemask_ps(live);
        const ivec order = front_order(ws, mask);
        const ivec place = _mm256_add_epi32(lanes, _mm256_set1_epi32((int)i * step));
        _mm256_storeu_si256((__m256i *)(list.place + list.count),
                            _mm256_permutevar8x32_epi32(place, order));
        _mm256_storeu_ps(list.value + list.count, _mm256_permutevar8x32_ps(value, order));
        list.count += __builtin_popcount(mask);
    }
    return list;
}

/* to[8 * vecs] (+)= sum over the list of value * rows[place ...]. The list is read one ahead, at
 * the end into its spare entries. */
TILE_FUNCTION void sum_rows_tile(LiveRow list, const float *rows, float *to, bool accumulate,
                                 const int vecs) {
    vec sum[INPUT_VECS];
    UNROLL for (int v = 0; v < vecs; v++) sum[v] = _mm256_setzero_ps();
    ptrdiff_t next = list.place[0];
    for (ptrdiff_t i = 0; i < list.count; i++) {
        const float *row = rows + next;
        const vec value = _mm256_broadcast_ss(list.value + i);
        next = list.place[i + 1];
        UNROLL for (int v = 0; v < vecs; v++)
            sum[v] = _mm256_fmadd_ps(value, _mm256_load_ps(row + v * LANES), sum[v]);
    }
    if (accumulate)
        UNROLL for (int v = 0; v < vecs; v++)
            sum[v] = _mm256_add_ps(sum[v], _mm256_loadu_ps(to + v * LANES));
    UNROLL for (int v = 0; v < vecs; v++) _mm256_storeu_ps(to + v * LANES, sum[v]);
}

static void sum_rows(LiveRow list, const float *rows, float *to, bool accumulate,
                     ptrdiff_t columns) {
    switch (columns / PANEL) {
        case 1: sum_rows_tile(list, rows, to, accumulate, 2); break;
        case 2: sum_rows_tile(list, rows, to, accumulate, 4); break;
        case 3: sum_rows_tile(list, rows, to, accumulate, 6); break;
        case 4: sum_rows_tile(list, rows, to, accumulate, 8); break;
        case 5: sum_rows_tile(list, rows, to, accumulate, 10); break;
        default: sum_rows_tile(list, rows, to, accumulate, INPUT_VECS); break;
    }
}

#endif
