// "Did you mean ...?" for names that a user typed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::common {

// The candidate nearest to `word` by edit distance (insert, delete, replace, swap of neighbours;
// case,
// '_' and '-' do not count), or nothing if none is near enough to be a slip of the fingers.
std::optional<std::string> closest(std::string_view word,
                                   const std::vector<std::string>& candidates);

// "a, b, c"
std::string join(const std::vector<std::string>& words, std::string_view separator = ", ");

}  // namespace lockstep::common
