// Which files of a repository a job needs: nothing else is fetched.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/common/result.h"
#include "runtime/common/train_config.h"
#include "runtime/hub/repo_tree.h"

namespace lockstep::runtime {

// Of a model in `folder` of the repository (empty: its root): config.json, what makes tokens, and
// with `weights` model.safetensors or else the index of its shards (choose_shards() follows).
// Pickles (*.bin, *.pt) are never chosen: loading one runs its author's code.
// kNotFound without a config.json, or without safetensors.
common::Result<std::vector<std::string>> choose_model_files(const RepoTree& tree,
                                                            const std::string& folder,
                                                            bool weights);

// Of a tokenizer at `path`: that file, or of that folder (empty: the root) what makes tokens and
// says how they are used. kNotFound if nothing there makes tokens.
common::Result<std::vector<std::string>> choose_tokenizer_files(const RepoTree& tree,
                                                                const std::string& path);

// The shards that the text of `folder`'s index names. kDataLoss for no index, or a shard that is
// not in the repository.
common::Result<std::vector<std::string>> choose_shards(const RepoTree& tree,
                                                       const std::string& folder,
                                                       std::string_view index_text);

// The name of the index among `files`; empty if it is not there.
std::string find_index(const std::vector<std::string>& files);

enum class DataPart { kTrain, kValidation };

struct DataChoice {
  std::vector<std::string> files;
  std::string pattern;  // that finds exactly these in the repository's folder: see expand_paths()
};

// Note [Files of a data set]
// A path to a file or a glob, in the words of data.train, means what it says. A folder, or no path,
// means its files of the first of these kinds that it holds: JSON lines, Parquet, *.csv and *.tsv,
// *.json (but dataset_infos.json, which describes data), *.tokens, *.txt. Where
// names tell parts apart, as in train-00000.jsonl and test/data.jsonl, data.train takes those of
// training, and data.validation those of validation, or else of the test; names that tell no part
// are of training.
// kNotFound, naming some of what there is, if nothing fits.
common::Result<DataChoice> choose_data_files(const RepoTree& tree, const std::string& path,
                                             DataPart part, common::DataConfig::Format format);

}  // namespace lockstep::runtime
