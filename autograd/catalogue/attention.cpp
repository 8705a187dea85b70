#include <jnorm/autograd/catalogue/case_list.hpp>
#include <jnorm/autograd/ops/masked.hpp>

namespace jnorm::catalogue {

namespace {

Tensor mask(const Shape& shape, std::initializer_list<std::int32_t> values) {
  return indices(shape, std::vector<std::int32_t>(values));
}

void add_selection(CaseList& list) {
  const Tensor pairs = mask({2, 3}, {1, 0, 1, 0, 0, 0});
  list.add("select", "[2, 2, 3] by [2, 3]", [pairs](Vars x) { return select(x[0], pairs); }, {list.normal({2, 2, 3})});
  list.add("sampled_matmul", "a row masked", [pairs](Vars x) { return sampled_matmul(x[0], x[1], pairs); },
           {list.normal({2, 2, 4}), list.normal({2, 3, 4})});
  list.add("masked_matmul", "a row masked", [pairs](Vars x) { return masked_matmul(x[0], x[1], pairs); },
           {list.normal({2, 2, 3}), list.normal({2, 3, 4})});
  list.add("masked_matmul", "transposed", [pairs](Vars x) { return masked_matmul(x[0], x[1], pairs, true); },
           {list.normal({2, 2, 3}), list.normal({2, 2, 4})});
}

void add_attention_case(CaseList& list, const char* variant, Index heads, const AttentionOptions& options,
                        const Shape& queries, const Shape& keys, const Shape& values) {
  list.add("attention", variant, [=](Vars x) { return attention(x[0], x[1], x[2], heads, options); },
           {list.normal(queries), list.normal(keys), list.normal(values)});
}

void add_rotary(CaseList& list) {
  const auto turn = [&](const char* variant, const Shape& shape, Index heads, const RotaryOptions& options) {
    list.add("rotary", variant, [=](Vars x) { return rotary(x[0], heads, options); }, {list.normal(shape)});
  };
  turn("[2, 3, 8], 2 heads", {2, 3, 8}, 2, {});
  turn("first position 1000, base 500", {1, 4, 6}, 1, {.base = 500.0, .first_position = 1000});
  turn("[1, 1, 2]", {1, 1, 2}, 1, {.first_position = 1});
  turn("[2, 0, 4]", {2, 0, 4}, 2, {});
}

}  // namespace

void add_attention(CaseList& list) {
  const Shape shape{2, 4, 6};
  add_attention_case(list, "[2, 4, 6], 2 heads", 2, {}, shape, shape, shape);
  add_attention_case(list, "causal, 2 queries, 4 keys", 1, {.causal = true}, {2, 2, 3}, {2, 4, 3}, {2, 4, 3});
  add_attention_case(list, "causal, 4 queries, 2 keys", 1, {.causal = true}, {1, 4, 3}, {1, 2, 3}, {1, 2, 3});
  add_attention_case(list, "wider values, scale 0.3", 2, {.scale = 0.3}, {2, 3, 4}, {2, 5, 4}, {2, 5, 6});
  add_attention_case(list, "4 heads, 2 key heads", 4, {.key_heads = 2}, {2, 3, 8}, {2, 4, 4}, {2, 4, 6});
  add_attention_case(list, "causal, 3 heads, 1 key head", 3, {.causal = true, .key_heads = 1}, {1, 2, 6}, {1, 3, 2},
                     {1, 3, 2});
  add_attention_case(list, "no key", 1, {}, {1, 2, 3}, {1, 0, 3}, {1, 0, 3});

  const Tensor padding = mask({2, 3}, {1, 1, 0, 1, 0, 0});
  const Tensor shared = mask({2, 3}, {1, 0, 1, 0, 0, 0});  // the second query sees nothing
  const Tensor by_batch = mask({2, 2, 3}, {0, 1, 1, 1, 0, 0, 1, 1, 1, 0, 1, 0});
  const Tensor by_head = mask({2, 2, 2, 3}, {1, 1, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 1, 1, 1, 0});
  const Shape q{2, 2, 4}, k{2, 3, 4};
  add_attention_case(list, "padding", 2, {.key_mask = padding}, q, k, k);
  add_attention_case(list, "mask [Tq, Tk], a row masked", 2, {.mask = shared}, q, k, k);
  add_attention_case(list, "mask [B, Tq, Tk]", 2, {.mask = by_batch}, q, k, k);
  add_attention_case(list, "mask [B, heads, Tq, Tk]", 2, {.mask = by_head}, q, k, k);
  add_attention_case(list, "all masks", 2, {.causal = true, .key_mask = padding, .mask = by_head}, q, k, k);

  const auto attend = [](Index heads) { return [heads](Vars x) { return causal_attention(x[0], x[1], x[2], heads); }; };
  for (const Shape& same : {shape, Shape{1, 1, 2}}) {
    list.add("causal_attention", to_string(same) + ", 2 heads", attend(2),
             {list.normal(same), list.normal(same), list.normal(same)});
  }
  list.add("causal_attention", "4 heads, 2 key heads",
           [](Vars x) { return attention(x[0], x[1], x[2], 4, {.causal = true, .key_heads = 2}); },
           {list.normal({2, 3, 8}), list.normal({2, 3, 4}), list.normal({2, 3, 4})});
  list.add("causal_attention", "of x, x, x", [](Vars x) { return causal_attention(x[0], x[0], x[0], 1); },
           {list.normal({1, 5, 3})});
  add_selection(list);
  add_rotary(list);
}

}  // namespace jnorm::catalogue
