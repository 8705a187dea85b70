#pragma once

#include <jnorm/layers/run_settings.hpp>

#include "cli.hpp"
#include "flags.hpp"

namespace jnorm {

// The settings of a group as options that fill `config`, whose present values are the defaults. Those that every
// command has, --seed and --dtype, are left out.
void add_setting_flags(Flags& flags, RunConfig& config, RunSetting::Group group);

// Whether the user gave one of the group's options.
bool given_group(const Session& session, RunSetting::Group group);
// Throws Error(argument) if so: `from`, a run folder or a checkpoint, has settings of its own.
void expect_not_given(const Session& session, RunSetting::Group group, const std::string& from);

// --seed and --dtype, where the user gave them.
void apply_common_settings(RunConfig& config, const Session& session);

}  // namespace jnorm
