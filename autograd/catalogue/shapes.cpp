#include <array>

#include <jnorm/autograd/catalogue/case_list.hpp>

namespace jnorm::catalogue {

namespace {

void add_parts(CaseList& list) {
  list.add("slice", "x[1:3, :, ::2]",
           [](Vars x) {
             return slice(x[0], {{1, 3}, {}, {.step = 2}});
           },
           {list.normal({4, 2, 5})});
  list.add("slice", "x[..., -2:]", [](Vars x) { return slice(x[0], -1, {.start = -2}); }, {list.normal({2, 1, 3, 4})});
  list.add("slice", "nothing of [3]", [](Vars x) { return slice(x[0], {{2, 1}}); }, {list.normal({3})});
  list.add("slice", "[0, 3]", [](Vars x) { return slice(x[0], 1, {.stop = 2}); }, {list.normal({0, 3})});
  list.add("place", "[2, 2] in [4, 5]",
           [](Vars x) {
             const Shape whole{4, 5};
             const std::array ranges{Range{1, 3}, Range{0, 4, 2}};
             return place(x[0], part_of(whole, ranges), whole);
           },
           {list.normal({2, 2})});
  list.add("concat", "[2, 3], [2, 1] and [2, 0] along 1",
           [](Vars x) {
             return concat({x[0], x[1], x[2]}, 1);
           },
           {list.normal({2, 3}), list.normal({2, 1}), list.normal({2, 0})});
  list.add("concat", "x, x, y, x, y, x along -2",
           [](Vars x) {
             return concat({x[0], x[0], x[1], x[0], x[1], x[0]}, -2);
           },
           {list.normal({2, 1, 2}), list.normal({2, 2, 2})});
  list.add("concat", "stack of [3] and [3]",
           [](Vars x) {
             return stack({x[0], x[1]}, -1);
           },
           {list.normal({3}), list.normal({3})});
  list.add("concat", "a split, put together in another order",
           [](Vars x) {
             const std::vector<Var> parts = split(x[0], {1, 3}, 1);
             return concat({parts[1], square(parts[0])}, 1);
           },
           {list.normal({2, 4})});
}

void add_indexing(CaseList& list) {
  const Tensor five_of_three = list.tokens({5}, 3), none = list.tokens({0}, 3);
  list.add("index_select", "5 of 3 along axis 1", [=](Vars x) { return index_select(x[0], 1, five_of_three); },
           {list.normal({2, 3, 4})});
  list.add("index_select", "5 of 3 along axis -1", [=](Vars x) { return index_select(x[0], -1, five_of_three); },
           {list.normal({3})});
  list.add("index_select", "none of 3", [=](Vars x) { return index_select(x[0], 0, none); }, {list.normal({3, 2})});
  list.add("index_add", "5 to 3 along axis 0",
           [=](Vars x) {
             return index_add(x[0], 0, five_of_three, {3, 2});
           },
           {list.normal({5, 2})});
  const Tensor index = list.tokens({2, 5, 3}, 4);
  list.add("gather", "[2, 4, 3] along axis 1", [=](Vars x) { return gather(x[0], 1, index); },
           {list.normal({2, 4, 3})});
  list.add("gather", "a smaller index along axis -1", [=](Vars x) { return gather(x[0], -1, index); },
           {list.normal({3, 6, 4})});
  list.add("scatter_add", "[2, 5, 3] into [2, 4, 3] along axis 1",
           [=](Vars x) {
             return scatter_add(x[0], 1, index, {2, 4, 3});
           },
           {list.normal({2, 5, 3})});
}

}  // namespace

void add_shapes(CaseList& list) {
  list.add("reshape", "[2, 6] to [3, 4]", [](Vars x) { return reshape(x[0], {3, 4}); }, {list.normal({2, 6})});
  list.add("broadcast", "[4] to [2, 3, 4]", [](Vars x) { return broadcast_to(x[0], {2, 3, 4}); }, {list.normal({4})});
  list.add("broadcast", "[3, 1] to [2, 3, 4]",
           [](Vars x) {
             return broadcast_to(x[0], {2, 3, 4});
           },
           {list.normal({3, 1})});
  list.add("broadcast", "[] to [2, 2]", [](Vars x) { return broadcast_to(x[0], {2, 2}); }, {list.normal({})});
  list.add("permute", "[2, 3, 4] by 2, 0, 1",
           [](Vars x) {
             return permute(x[0], {2, 0, 1});
           },
           {list.normal({2, 3, 4})});
  list.add("permute", "transpose of [3, 4]", [](Vars x) { return transpose(x[0]); }, {list.normal({3, 4})});
  list.add("permute", "axes 0 and -1 of [2, 1, 3, 2]", [](Vars x) { return transpose(x[0], 0, -1); },
           {list.normal({2, 1, 3, 2})});
  list.add("reshape", "[2, 3, 4] flattened, with a new axis", [](Vars x) { return unsqueeze(flatten(x[0], 1), -1); },
           {list.normal({2, 3, 4})});
  add_parts(list);
  add_indexing(list);
}

}  // namespace jnorm::catalogue
