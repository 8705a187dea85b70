#include <jnorm/autograd/catalogue/case_list.hpp>

namespace jnorm::catalogue {

void add_embeddings(CaseList& list) {
  const Tensor tokens = list.tokens({2, 4}, 3);
  list.add("embedding", "3 rows, 8 tokens", [tokens](Vars x) { return embedding(x[0], tokens); },
           {list.normal({3, 5})});
}

}  // namespace jnorm::catalogue
