// The sources as text, for pages that speak of them.
#pragma once

#include <string>
#include <vector>

namespace lockstep::reference {

// A file of the tree; throws std::runtime_error without it.
std::string read_source(const std::string& path);

// The text of all sources (*.cc, *.h) below folders of the tree, comments left out.
std::string read_sources(const std::vector<std::string>& folders);

// What the string literals of a source say: adjacent ones joined, an escaped character as
// itself (a line's end as "n").
std::vector<std::string> literals_of(const std::string& source);

// A cell of a Markdown table.
std::string cell(const std::string& text);

}  // namespace lockstep::reference
