-- The health of a TrainingJob, from its conditions. A job that runs is Progressing, as a Job is: it is healthy once it has succeeded.
if obj.status == nil or obj.status.conditions == nil then
  return {status = "Progressing", message = "waiting for the operator"}
end
if obj.status.observedGeneration ~= obj.metadata.generation then
  return {status = "Progressing", message = "waiting for the operator to see the change"}
end

local conditions = {}
for _, condition in ipairs(obj.status.conditions) do
  conditions[condition.type] = condition
end
local function is(kind, value)
  return conditions[kind] ~= nil and conditions[kind].status == value
end
local function tell(health, kind)
  local said = conditions[kind]
  local message = said.reason or kind
  if said.message ~= nil and said.message ~= "" then
    message = message .. ": " .. said.message
  end
  return {status = health, message = message}
end

if is("Failed", "True") then return tell("Degraded", "Failed") end
if is("Succeeded", "True") then return tell("Healthy", "Succeeded") end
if is("Accepted", "False") then return tell("Degraded", "Accepted") end
if is("Suspended", "True") then return tell("Suspended", "Suspended") end
if is("Stalled", "True") then return tell("Degraded", "Stalled") end
-- What the API server refuses will not mend itself.
local refused = {CreationRefused = true, PodSecurity = true, NameTaken = true}
if is("Scheduled", "False") and refused[conditions.Scheduled.reason] then return tell("Degraded", "Scheduled") end

local message = obj.status.state or "Pending"
if obj.status.progress ~= nil and obj.status.progress.summary ~= nil then
  message = message .. ", step " .. obj.status.progress.summary
elseif obj.status.message ~= nil and obj.status.message ~= "" then
  message = message .. ": " .. obj.status.message
end
return {status = "Progressing", message = message}
