// Text on its way into a page.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::runs {

// `text` as the content of an element or of a quoted attribute: markup escaped, control characters
// and bytes that are no UTF-8 replaced by U+FFFD.
std::string html_text(std::string_view text);

// A number for people: at most `digits` significant ones, "1.23e-05", "12,345", "-".
std::string short_number(double value, int digits = 4);
// "512 B", "1.5 MiB", "20 GiB".
std::string short_bytes(double bytes);

}  // namespace lockstep::runs
