"""The kernel under gcc's AddressSanitizer and UndefinedBehaviorSanitizer."""

import shutil
import subprocess
from pathlib import Path

import pytest

import fedorbit.learning.kernel as kernel_module
from fedorbit.learning.kernel import (
    available,
    unavailable_reason,
)

SOURCES = Path(kernel_module.__file__).parent
DRIVER = r"""
#include "lenet.c"
#include <stdio.h>
#include <stdlib.h>

/* Buffers have exactly the size that the binding promises, so that any read past an end is seen. */
static void run(int32_t height, int32_t width, int32_t channels, int32_t classes, int64_t samples,
                int64_t batch, int32_t kind) {
    const LenetInput in = {height, width, channels, classes};
    const size_t n = (size_t)lenet_parameters(&in);
    const size_t values = (size_t)samples * height * width * channels;
    void *images = malloc(values * (size_t)bytes_of(kind));
    int64_t *labels = malloc((size_t)samples * sizeof *labels);
    int64_t *order = malloc(2 * (size_t)samples * sizeof *order);
    float *scale = malloc((size_t)channels * sizeof(float));
    float *shift = malloc((size_t)channels * sizeof(float));
    float *w = malloc(n * sizeof(float)), *v = malloc(n * sizeof(float));
    uint32_t seed = 1;
#define NEXT ((seed = seed * 1664525u + 1013904223u) >> 8)
    for (size_t i = 0; i < values; i++)
        if (kind == BYTES) ((uint8_t *)images)[i] = (uint8_t)NEXT;
        else if (kind == WORDS) ((uint16_t *)images)[i] = (uint16_t)(NEXT % 256);
        else ((float *)images)[i] = (float)(NEXT % 256);
    for (int64_t i = 0; i < samples; i++) labels[i] = NEXT % (uint32_t)classes;
    for (int64_t i = 0; i < 2 * samples; i++) order[i] = NEXT % (uint32_t)samples;
    for (int32_t c = 0; c < channels; c++) scale[c] = 0.01f, shift[c] = -1.0f;
    for (size_t i = 0; i < n; i++) w[i] = v[i] = ((float)(NEXT % 2000) - 1000) * 1e-4f;
    float *offset = malloc((size_t)classes * sizeof(float));
    for (int32_t c = 0; c < classes; c++) offset[c] = -0.1f * (float)c;
    const LenetData data = {images, kind, labels, scale, shift, offset};
    int32_t cancel = 0;
    int8_t *views = malloc(2 * (size_t)samples * VIEW);
    for (int64_t i = 0; i < 2 * samples; i++) {
        views[i * VIEW + ORIENTATION] = (int8_t)(NEXT % (height == width ? 8 : 4));
        views[i * VIEW + ROWS_ON] = (int8_t)((int)(NEXT % 255) - 127);
        views[i * VIEW + COLUMNS_ON] = (int8_t)((int)(NEXT % 9) - 4);
    }
    const LenetSchedule plan = {order, views, 2, samples, batch, 0.01f, 0.9f, 1e-4f, 1.0f,
                                &cancel};
    const size_t needed = (size_t)lenet_workspace_bytes(&in, batch);
    LenetMemory memory = {aligned_alloc(64, needed), NULL};
    memset(memory.workspace, 0, needed);
    double alpha = 0.5, loss;
    int64_t correct;
    /* Parts that begin in every layer, each as a range and with a mask; and an empty one. */
    const Shape s = shape_of(&in);
    const int64_t begins[] = {0, s.conv2_w, s.fc1_w, s.fc1_w + 1, s.fc2_w, s.fc3_w, s.parameters};
    uint8_t *mask = malloc(n);
    for (size_t i = 0; i < n; i++) mask[i] = NEXT % 3 > 0;
    float *moving = malloc(n * sizeof(float));
    memcpy(moving, v, n * sizeof(float));
    const LenetRule rules[] = {
        {.repeats = 1},
        {.anchor = v, .correction = v, .repeats = 1, .pull = 0.1f},
        {.anchor = moving, .repeats = 3, .pull = 0.1f, .follow = 0.3f},
        {.repeats = 1, .ahead = 0.1f},
        {.anchor = moving, .correction = v, .repeats = 2, .pull = 0.1f, .follow = 0.7f,
         .ahead = 0.1f, .radius = 0.01f},
    };
    int status = 0;
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
        memory.scratch = aligned_alloc(64, (size_t)lenet_scratch_bytes(&in, rules + r));
        for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
            for (int masked = 0; masked < 2; masked++) {
                const LenetPart part = {begins[i], s.parameters, masked ? mask : NULL};
                status |= lenet_train(&in, &data, &memory, &plan, &part, rules + r, w);
            }
        const LenetPart body = {0, s.fc2_w, NULL};
        status |= lenet_train(&in, &data, &memory, &plan, &body, rules + r, w);
        free(memory.scratch);
    }
    memory.scratch = aligned_alloc(64, (size_t)lenet_apfl_scratch_bytes(&in));
    status |= lenet_train_apfl(&in, &data, &memory, &plan, w, v, &alpha);
    status |= lenet_evaluate(&in, &data, &memory, &plan, w, &correct, &loss);
    status |= lenet_gradient(&in, &data, &memory, &plan, w, v, &loss);
    printf("%d x %d x %d: %d %f\n", height, width, channels, status, loss);
    free(memory.workspace), free(memory.scratch), free(images), free(labels), free(order);
    free(offset), free(views), free(scale), free(shift), free(w), free(v), free(mask), free(moving);
    if (status || loss != loss) exit(1);
}

int main(void) {
    run(16, 16, 1, 1, 1, 1, 1);
    run(17, 23, 2, 5, 7, 3, 1);
    run(16, 70, 3, 2, 3, 8, 0);
    run(68, 20, 4, 2, 3, 2, 1);
    run(32, 32, 3, 45, 5, 4, 1);
    run(18, 19, 17, 3, 3, 2, 0);
    run(20, 20, 13, 3, 5, 2, 2);
    run(19, 33, 1, 3, 5, 2, 2);
    run(16, 17, 32, 3, 2, 2, 1);
    run(16, 16, 1, 9, 70, 70, 1);
    return 0;
}
"""


def test_sanitizers_find_nothing(tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    if not available() and "CPU" in unavailable_reason():
        pytest.skip(unavailable_reason())
    sanitize = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    probe = tmp_path / "probe.c"
    probe.write_text("int main(void) { return 0; }\n")
    if subprocess.run(
        ["gcc", *sanitize, "-mavx2", str(probe), "-o", str(tmp_path / "probe")],
        capture_output=True,
        check=False,
    ).returncode:
        pytest.skip("gcc has no AddressSanitizer here, or does not compile for AVX2")
    driver = tmp_path / "driver.c"
    driver.write_text(DRIVER)
    program = tmp_path / "driver"
    flags = ["-std=c11", "-O0", "-g", "-mavx2", "-mfma", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(
        ["gcc", *flags, *sanitize, f"-I{SOURCES}", str(driver), "-o", str(program), "-lm"],
        check=True,
    )
    result = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
