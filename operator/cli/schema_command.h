// lockstep schema: the table of fields, as the CustomResourceDefinition, a JSON schema for editors
// or a page to read.
#pragma once

namespace CLI {
class App;
}

namespace lockstep::cli {

void add_schema(CLI::App& app, int& status);

}  // namespace lockstep::cli
