#pragma once

#include <jnorm/layers/transformer_config.hpp>

#include "cli.hpp"

namespace jnorm {

// `jnorm probe --survey`: what stacks of blocks do at their start, by placement and depth, as one table.
class Survey {
 public:
  void add_flags(Flags& flags);
  bool wanted() const { return wanted_; }
  // Throws Error(argument) if one of the survey's options was given without --survey.
  void expect_unused(const Session& session) const;
  // Of blocks as `model` has them. Throws Error(argument) on options that a survey has no use for.
  void run(const Session& session, const TransformerConfig& model, Index tokens) const;

 private:
  bool wanted_ = false;
  std::string placements_ = "all";
  std::string depths_ = "6,12,24,48";
  Index seeds_ = 5;
  Index cotangents_ = 32;
};

}  // namespace jnorm
