// The pages of docs/reference, made of the program itself and of its sources.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>

namespace lockstep::reference {

// Every verb with its flags, from the tables by which the command line is parsed.
std::string cli_page();
// Exit codes of ranks and of `lockstep`, with the words of the headers that define them.
std::string exit_codes_page();
// What stands behind "kName = 12," or "kName = 12;" in a header, by number, however the line or its
// comment is wrapped. Throws std::runtime_error for a constant whose number it cannot read.
std::map<int, std::string> comments_in(const std::string& header);
// Series of the operator and of a rank, from what their endpoints answer.
std::string metrics_page();
// Names of the series on that page.
std::set<std::string> documented_metrics();
// Event reasons, condition types and reasons, and reasons of failures.
std::string reasons_page();

struct Reason {
  const char* where;  // "Event", "Failure", or the type of a condition
  const char* reason;
  const char* meaning;
};
// What reasons_page() is made of.
std::span<const Reason> reasons();

}  // namespace lockstep::reference
