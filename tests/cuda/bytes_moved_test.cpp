#include <doctest/doctest.h>

#include <jnorm/cuda/bytes_moved.hpp>

using namespace jnorm;
using namespace jnorm::cuda;

TEST_CASE("bytes moved: reductions read each element once, and write and read partial sums") {
  CHECK(row_reduction_bytes(8192, 4096, 4) == 134217728);
  CHECK(column_sum_bytes(8192, 4096, 2, 0) == 67108864);
  CHECK(column_sum_bytes(8192, 4096, 2, 64) == 67108864 + 2097152);
  CHECK(global_norm_bytes(124439808, 4) == 497759232);
}

TEST_CASE("bytes moved: a step reads the gradient, and reads and writes the parameter and its moments") {
  CHECK(optimizer_step_bytes(1000, 4, 2, 4) == 28000);  // AdamW in float32
  CHECK(optimizer_step_bytes(1000, 2, 2, 4) == 22000);  // in bfloat16, moments in float32
  CHECK(optimizer_step_bytes(1000, 4, 0, 4) == 12000);  // plain SGD
}

TEST_CASE("bytes moved: norms read x and write y, read dy and x and write dx, and save numbers of rows") {
  CHECK(layer_norm_bytes(8192, 4096, 2) == 134217728 + 65536);
  CHECK(layer_norm_bytes(8192, 4096, 8) == 536870912 + 131072);
  CHECK(root_norm_bytes(8192, 4096, 2) == 134217728 + 32768);
  CHECK(layer_norm_backward_bytes(8192, 4096, 2, 528) == 201326592 + 34603008);
  CHECK(rms_norm_backward_bytes(8192, 4096, 2, 528) == 201326592 + 17301504);
}

TEST_CASE("bytes moved: softmax and cross-entropy read and write each element once; a sum of gradients reads it too") {
  CHECK(softmax_bytes(8192, 4096, 4) == 268435456);
  CHECK(softmax_dx_bytes(1, 8192, 4096, 4, false) == 402653184);
  CHECK(softmax_dx_bytes(3, 10, 100, 2, true) == 20000);
  CHECK(cross_entropy_bytes(8192, 50257, 4) == 1646821376);
  CHECK(cross_entropy_dx_bytes(1, 8192, 50257, 4, false) == 3293642752);
  CHECK(cross_entropy_dx_bytes(2, 10, 100, 4, true) == 24000);
}

TEST_CASE("bytes moved: embedding reads and writes the rows of its tokens; its gradient clears the table") {
  CHECK(embedding_bytes(8192, 512, 4) == 33554432 + 32768);
  CHECK(embedding_dtable_bytes(1, 8192, 256, 512, 4, false) == 16777216 + 524288 + 32768);
  CHECK(embedding_dtable_bytes(1, 8192, 256, 512, 4, true) == 16777216 + 32768);
}

TEST_CASE("bytes moved: dynamic tanh reads x and writes y, reads dy and x, and writes dx") {
  CHECK(dynamic_tanh_bytes(8192, 4096, 2) == 134217728);
  CHECK(dynamic_tanh_dx_bytes(8192, 4096, 2) == 201326592);
  CHECK(dynamic_tanh_dparameters_bytes(8192, 4096, 2, 100) == 134217728 + 3276800);
}

TEST_CASE("bytes moved: norms over channels read x twice forward, and x and dy twice backward") {
  for (const Groups groups : {Groups::none, Groups::longer}) {
    CHECK(channel_norm_bytes(groups, 1000, 2) == 6000);
    CHECK(channel_norm_backward_bytes(groups, 1000, 2) == 10000);
  }
}

TEST_CASE("bytes moved: groups on chip are read once") {
  CHECK(channel_norm_bytes(Groups::on_chip, 1000, 2) == 4000);
  CHECK(channel_norm_backward_bytes(Groups::on_chip, 1000, 2) == 6000);
}

TEST_CASE("bytes moved: attention reads q, k and v and writes y, and backward as much again") {
  const Index rows = Index{32} * 256 * 512, lse = Index{32} * 8 * 256;
  CHECK(attention_bytes(rows, rows, rows, rows, lse, 4) == 67108864 + 262144);
  CHECK(attention_bytes(rows, rows, rows, rows, lse, 2) == 33554432 + 262144);
  CHECK(attention_backward_bytes(rows, rows, rows, rows, lse, 4) == 134217728 + 524288);
}

TEST_CASE("bytes moved: counts beyond 32 bits") { CHECK(row_reduction_bytes(1 << 20, 1 << 16, 4) == 274877906944); }

TEST_CASE("bytes moved: elementwise reads operands and writes the result") {
  CHECK(unary_bytes(1000, 4) == 8000);
  CHECK(binary_bytes(1000, 10, 4) == 8040);
  CHECK(compare_bytes(1000, 10, 2) == 2020 + 4000);
  CHECK(where_bytes(1000, 2) == 10000);
  CHECK(convert_bytes(1000, 4, 2) == 6000);
  CHECK(activation_dx_bytes(3, 1000, 4, false) == 28000);
  CHECK(activation_dx_bytes(1, 1000, 4, true) == 16000);
}

TEST_CASE("bytes moved: copies and indices") {
  CHECK(copy_bytes(1000, 2) == 4000);
  CHECK(copy_bytes(1000, 4, true) == 12000);
  CHECK(broadcast_bytes(10, 1000, 4) == 4040);
  CHECK(index_select_bytes(8, 1000, 4) == 32 + 8000);
  CHECK(index_add_bytes(8, 1000, 4000, 4) == 32 + 20000);
  CHECK(gather_bytes(1000, 2) == 8000);
  CHECK(scatter_add_bytes(1000, 4000, 2) == 6000 + 8000);
}

TEST_CASE("bytes moved: rotary reads x and the table, and writes y") {
  CHECK(rotary_bytes(1000, 64, 2, 4, false) == 4000 + 256);
  CHECK(rotary_bytes(1000, 64, 2, 4, true) == 6000 + 256);
}
