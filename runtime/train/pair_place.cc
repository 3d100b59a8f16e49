#include "runtime/train/pair_place.h"

#include <memory>

#include "runtime/checkpoint/output_folder.h"
#include "runtime/data/conversation_layout.h"
#include "runtime/data/data_files.h"
#include "runtime/data/find_pair.h"
#include "runtime/train/job_tokenizer.h"
#include "runtime/train/training_data.h"

namespace lockstep::runtime {

using common::Result;

Result<std::string> place_of_pair(const RankState& s, Disk& disk, Share share, int64_t pair,
                                  const std::function<bool()>& goes_on) {
  const common::DataConfig& config = s.config().data;
  const bool is_other_data = share == Share::kHeldOut && s.divided.empty();
  const Samples& samples = share == Share::kHeldOut ? *s.validation : s.samples->samples();
  const auto [source, in_source] = samples.place_of(pair);
  const std::string& path = is_other_data ? config.validation : config.sources[source].path;
  ASSIGN_OR_RETURN(const DataFiles data, find_data(path, common::DataConfig::Format::kMessages));
  ASSIGN_OR_RETURN(const ConversationLayout layout,
                   find_layout_of(data.paths.files, config.conversation_columns, find_pair_layout));
  ASSIGN_OR_RETURN(const auto told, template_time(disk, tokens_folder(s.env.output)));
  ASSIGN_OR_RETURN(const std::unique_ptr<ConversationTokenizer> conversations,
                   open_job_conversations(s.config(), layout, told));
  return find_pair(data.paths.files, *conversations,
                   s.divided.empty() ? in_source : s.divided[source]->unit_of(share, in_source),
                   goes_on);
}

}  // namespace lockstep::runtime
