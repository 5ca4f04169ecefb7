"""The rest of a made-up life: what is said of it, and how one might come back to it in other words."""

# ruff: noqa: E501 - a fact and its question stand on one line

from __future__ import annotations

# category | predicate | object | what was said | what might be asked later (none if left out)
LIFE = """
health|IS_ALLERGIC_TO|peanuts|I'm allergic to peanuts, badly.|Can I have the satay sauce?
health|IS_ALLERGIC_TO|penicillin|I'm allergic to penicillin.|Which antibiotic should I tell the doctor about?
health|IS_ALLERGIC_TO|birch pollen|Birch pollen makes me sneeze all spring.|Why are my eyes itchy in April?
health|IS_ALLERGIC_TO|wasp stings|A wasp sting once put me in hospital, I carry a pen for it.|What happened with the wasp?
health|NOT_ALLERGIC_TO|cats|I'm not allergic to cats, I tested it.|Am I allergic to cats?
health|NOT_ALLERGIC_TO|latex|Latex gloves are fine for me, no allergy there.|Is latex a problem for me?
health|TAKES|sertraline|I take sertraline every morning.|Which antidepressant am I on?
health|TAKES|iron tablets|My doctor put me on iron tablets.|Which supplements do I take for my blood?
health|TAKES|melatonin|Melatonin helps me sleep when I travel.|What do I use against jet lag?
health|STOPPED_TAKING|ibuprofen|I no longer take ibuprofen because of my stomach.|Do I still take ibuprofen?
health|HAS|migraine|I get migraines with aura about twice a month.|How often do I have headaches with flashing lights?
health|HAS|tinnitus|There is a ringing in my left ear since the concert.|What is wrong with my hearing?
health|HAS|asthma|I've had asthma since childhood.|Should I bring my inhaler?
health|HAD|knee surgery|They operated on my right knee in 2019.|When was the operation on my leg?
health|EATS|vegetarian|I'm vegetarian, but I eat eggs.|Do I eat meat?
health|AVOIDS|alcohol|I stopped drinking three years ago.|How long have I been sober?
health|AVOIDS|coffee after noon|No coffee for me after noon, or I lie awake.|Until when can I have an espresso?
health|SLEEPS|badly before flights|I never sleep the night before a flight.|What happens the night before I fly?
health|WEARS|glasses for driving|I wear glasses only for driving.|Do I need spectacles behind the wheel?
health|FEARS|needles|Needles make me faint.|How do I react to injections?
food|LIKES|mushroom risotto|My comfort food is mushroom risotto.|What should I cook when I feel low?
food|LIKES|oolong tea|I drink oolong tea all day.|What's my usual drink?
food|LIKES|rye bread|Nothing beats fresh rye bread.|Which loaf do I prefer?
food|LIKES|mango|I could eat mango every day.|What is my favourite fruit?
food|LIKES|pickled herring|I love pickled herring, like my grandfather.|Which fish do I enjoy?
food|DISLIKES|coriander|Coriander tastes like soap to me.|Should they leave the cilantro out?
food|DISLIKES|beetroot|I can't stand beetroot.|Which vegetable do I hate?
food|DISLIKES|blue cheese|Blue cheese is a no for me.|Is gorgonzola on pizza a good idea for me?
food|DISLIKES|raisins|Raisins ruin every cake.|What must not be in my cake?
food|DISLIKES|sparkling water|I don't like sparkling water.|Still or with bubbles?
food|COOKS|dal on Mondays|On Mondays I always cook dal.|What's for dinner at the start of the week?
food|BAKES|sourdough|I started a sourdough named Bob.|How is my starter called?
food|GROWS|tomatoes|I grow tomatoes on the balcony.|What is ripening on my balcony?
food|ORDERS|pad thai|I always order pad thai, no egg.|What do I get at the Thai place?
food|REMEMBERS|plum cake|My grandmother's plum cake is the taste of my childhood.|What did grandma bake?
hobby|PLAYS|cello|I've played the cello since I was nine.|Which instrument do I play?
hobby|PLAYS|chess online|I play chess online when I can't sleep.|What do I do when I'm awake at three?
hobby|RUNS|half marathons|I run two half marathons a year.|How many races do I do?
hobby|SWIMS|in the lake|From May on I swim in the lake before work.|Where do I go for a dip in summer?
hobby|CLIMBS|indoors|I go bouldering on Thursdays.|What's on Thursday evening?
hobby|READS|crime novels|I read one crime novel a week.|What kind of books do I like?
hobby|LISTENS_TO|Nina Simone|Nina Simone gets me through cleaning.|What music do I put on for housework?
hobby|KNITS|socks|I knit socks for the whole family.|What do I make from wool?
hobby|COLLECTS|old maps|I collect maps from before the war.|What do I look for at flea markets?
hobby|PHOTOGRAPHS|doors|I take pictures of doors wherever I go.|What do I point my camera at?
hobby|WATCHES|snooker|I find snooker on television very calming.|Which sport do I watch to relax?
hobby|SINGS|in a choir|I sing alto in the church choir.|Which part do I sing?
hobby|LEARNS|Finnish|I'm learning Finnish with an app.|Which language am I studying?
hobby|GAVE_UP|tennis|I gave up tennis because of my elbow.|Why don't I play tennis any more?
hobby|PAINTS|watercolours|I paint watercolours on holiday.|What do I do with brushes on vacation?
hobby|VOLUNTEERS|food bank|Every second Saturday I help at the food bank.|Where do I volunteer?
hobby|REPAIRS|bicycles|I repair bicycles for friends.|Who can fix a flat tyre among my friends?
hobby|DANCES|tango|I dance tango with strangers, it's wonderful.|What kind of dancing do I do?
hobby|BIRDWATCHES|in the marsh|At the marsh I once saw a bittern.|Which rare bird did I spot?
hobby|WRITES|a diary|I've kept a diary since 1998.|How long have I been writing things down?
work|WORKS_AS|museum guide|I work as a guide at the maritime museum.|Where do I show visitors around?
work|WORKS|four days a week|I cut down to four days, Fridays are mine.|Which weekday am I off?
work|LEADS|school programme|I run the programme for schools.|Who is responsible for class visits at my job?
work|DISLIKES|open-plan office|The open-plan office drives me mad.|What annoys me about my workplace?
work|USES|a standing desk|I've had a standing desk since my back went.|How did I solve my back trouble at work?
work|COMMUTES|by ferry|I take the ferry to work.|How do I get to the museum?
work|EARNS|less than before|I earn less than in my old job but I sleep.|Was my old job better paid?
work|LEFT|insurance company|I left the insurance company after eleven years.|Where was I employed before?
work|WANTS|a raise|I want to ask for a raise in spring.|What will I discuss with management in spring?
work|PRESENTS|at a conference|I'm giving a talk in Rotterdam in September.|What's happening in Rotterdam?
work|FINISHED|a certificate|I finished my certificate in conservation.|What did I study besides work?
work|MANAGES|three volunteers|Three volunteers report to me.|How many people do I supervise?
work|FORGOT|the fire drill|I once slept through a fire drill at work.|What embarrassing thing happened with the alarm?
work|WRITES|the newsletter|I write the museum's newsletter.|Which monthly text is my job?
work|DREADS|the annual review|I dread the annual review with personnel.|Which meeting scares me each year?
concern|WORRIES_ABOUT|rent|The rent went up again and I don't know how to pay it.|What are my money troubles?
concern|WORRIES_ABOUT|father's memory|My father keeps losing words, it scares me.|Why am I concerned about dad's mind?
concern|WORRIES_ABOUT|climate|I lie awake over the climate.|Which big topic keeps me up?
concern|WORRIES_ABOUT|the exam|The driving exam in June makes me nervous.|Which test am I afraid of?
concern|WORRIES_ABOUT|being alone|I'm afraid of ending up alone.|What is my biggest fear about getting older?
concern|WORRIES_ABOUT|the lump|I found a lump and wait for the results.|Which medical result am I waiting for?
concern|WORRIES_ABOUT|my daughter's reading|Mina still can't read and I worry.|Is my child behind at school?
concern|WORRIES_ABOUT|public speaking|My voice shakes when I speak in front of people.|What happens to me on stage?
concern|WORRIES_ABOUT|debts|There are debts from the wedding left.|What do I still owe?
concern|WORRIES_ABOUT|the neighbourhood|Two break-ins in our street this year.|Is it safe where I live?
concern|WORRIES_ABOUT|the roof|The roof leaks whenever it rains.|What needs repair in the house?
concern|WORRIES_ABOUT|my temper|I shouted at Leo and felt awful.|Whom did I lose my patience with?
concern|WORRIES_ABOUT|phone use|I scroll for hours at night.|What bad habit do I have in bed?
concern|WORRIES_ABOUT|layoffs|They say the museum may lose its funding.|Is my job secure?
concern|WORRIES_ABOUT|mother's fall|Mum fell on the stairs last winter.|What accident did my mother have?
concern|WORRIES_ABOUT|weight|I gained eight kilos during lockdown.|How did my body change in the pandemic?
goal|WANTS|to swim the strait|One day I want to swim across the strait.|What is my athletic dream?
goal|WANTS|to save for a boat|I put fifty euros a month aside for a boat.|What am I saving for?
goal|WANTS|to finish the novel|There's half a novel in my drawer I want to finish.|Which unfinished text do I have?
goal|WANTS|to call mother more|I want to phone my mother every Sunday.|What did I resolve about calling family?
goal|WANTS|to quit sugar|I'm trying to go without sugar this month.|What am I giving up at the moment?
goal|WANTS|to move to the coast|In five years I see myself at the coast.|Where do I want to live later?
goal|WANTS|to learn to say no|I need to learn to say no.|Which boundary do I work on?
goal|WANTS|to visit Japan|I want to see the cherry blossom in Kyoto.|Which trip to Asia do I dream of?
goal|WANTS|to adopt a dog|We think about adopting an old dog.|Which animal might join us?
goal|WANTS|to walk daily|Ten thousand steps a day is my plan.|How much do I want to move?
goal|WANTS|to make peace with Daniel|I'd like to part from Daniel without anger.|What do I hope for with my ex?
goal|WANTS|a garden|I'd love a small garden with a pear tree.|What would I plant?
coping|USES|box breathing|Box breathing calms me down before meetings.|What helps me right before I present?
coping|USES|cold water|Cold water on my wrists stops the panic.|What do I do against panic attacks?
coping|USES|walking|When I'm angry I walk around the block.|How do I deal with rage?
coping|USES|lists|Writing everything on a list clears my head.|What helps when my thoughts race?
coping|USES|calling Amara|If it gets bad I ring Amara.|Whom do I contact in a crisis?
coping|USES|weighted blanket|The weighted blanket helps me fall asleep.|What do I have in bed against restlessness?
coping|USES|grounding|Naming five things I see brings me back.|Which exercise grounds me?
coping|USES|baking|When I'm sad I bake bread.|What do I do with grief?
coping|USES|music before sleep|Slow piano music at bedtime works for me.|What do I listen to at night?
coping|DOES_NOT_HELP|meditation apps|Meditation apps make me more nervous.|Should you suggest a meditation app?
coping|DOES_NOT_HELP|advice|When I'm upset, advice makes it worse.|How should someone not react when I cry?
coping|DOES_NOT_HELP|alcohol|Wine never helped me with stress.|Did drinking ever make it better?
coping|USES|sunlight lamp|In winter I sit under a bright lamp every morning.|What do I do against the dark season?
coping|USES|stroking the cat|Stroking the cat takes the edge off.|What soothes me at home?
loss|EXPERIENCED|dog's death|Our dog Bruno died last autumn.|Which pet did we lose?
loss|EXPERIENCED|miscarriage|I had a miscarriage in 2021.|What happened to my pregnancy?
loss|EXPERIENCED|divorce|The divorce from Daniel was final in March.|Since when am I no longer married?
loss|EXPERIENCED|house fire|We lost everything in a house fire when I was six.|What disaster did I live through as a child?
loss|EXPERIENCED|friend's suicide|My schoolfriend Oskar took his life.|Who died by suicide in my youth?
loss|EXPERIENCED|job loss|Being laid off at thirty broke something in me.|When was I made redundant?
event|EXPERIENCED|car accident|A lorry hit us on the motorway in 2016.|Why am I tense on the highway?
event|EXPERIENCED|wedding|We married on a boat in the harbour.|Where was my wedding?
event|EXPERIENCED|prize|I won a prize for young cellists.|Which award did I get for music?
event|EXPERIENCED|bullying|At school they called me names for years.|How was I treated in class?
event|EXPERIENCED|emigration|We came to this country when I was eleven.|At what age did I immigrate?
event|EXPERIENCED|first marathon|I finished my only marathon in tears.|How did my longest race end?
event|EXPERIENCED|burglary|Somebody stole my grandfather's watch.|What was taken from me?
event|EXPERIENCED|reunion|At the reunion I met my first love again.|Whom did I see at the class meeting?
event|EXPERIENCED|hospital stay|I spent Christmas in hospital with my appendix.|Where was I over the holidays when I was ill?
home|LIVES_IN|Trieste|I live in Trieste, up the hill.|Which city is my home?
home|LIVES_WITH|two cats|Two cats live with us, Salt and Pepper.|What are my pets called?
home|OWNS|an old Volvo|We drive an old Volvo.|What car do we have?
home|OWNS|a kayak|There's a kayak in the cellar.|Do I have a boat?
home|RENTS|third floor|We rent on the third floor without a lift.|Is there an elevator in my building?
home|HEATS|with wood|We heat with a wood stove.|How do we keep warm?
home|SHARES|the garden shed|We share the shed with Mrs Okafor.|Who else uses our shed?
home|KEEPS|spare key|The spare key is with the neighbour.|Who can let me in if I'm locked out?
home|HAS|no television|We have no television at home.|Do I own a TV?
home|HAS|a piano|The piano stands in the hall, out of tune.|Which instrument needs tuning?
home|PLANS|a new kitchen|The kitchen will be redone in October.|Which renovation is coming up?
home|LOST|wifi password|Nobody remembers our wifi password.|What do guests always ask for in vain?
travel|VISITED|Iceland|We hiked in Iceland for two weeks.|In which cold country did I go walking?
travel|VISITED|Marrakesh|I got lost in the market of Marrakesh.|Where did I lose my way in a bazaar?
travel|VISITED|the Alps|Every February we ski in the Alps.|What do we do in winter holidays?
travel|VISITED|Edinburgh|I studied a year in Edinburgh.|Where was my exchange year?
travel|VISITED|Crete|Our honeymoon was on Crete.|Which island did we go to after the wedding?
travel|AVOIDS|flying|I haven't flown since 2018.|When was I last on a plane?
travel|PREFERS|night trains|I love night trains.|How do I like to travel far?
travel|PACKS|too much|I always pack too many books.|What makes my suitcase heavy?
travel|PLANS|Norway|Next summer we cross Norway by bike.|What's the plan for the next big holiday?
travel|DISLIKES|cruises|You won't get me on a cruise ship.|Would a cruise be nice for me?
preference|PREFERS|mornings|I think best before eight in the morning.|When is my head clearest?
preference|PREFERS|written notes|Give me things in writing, I forget what I hear.|Do I remember better by reading or listening?
preference|LIKES|rainy days|Rain makes me cheerful.|Which weather lifts my mood?
preference|LIKES|the colour green|Green is my colour.|Which paint should I choose for the wall?
preference|DISLIKES|phone calls|I hate being called without warning.|Should people ring me?
preference|DISLIKES|surprises|Please no surprise parties.|Do I like it when guests hide in the dark and shout?
preference|DISLIKES|perfume|Strong perfume gives me a headache.|Which smell can't I bear?
preference|LIKES|silence at breakfast|Nobody talks to me at breakfast.|When do I want quiet?
preference|BELIEVES|in second chances|Everybody deserves a second chance, I think.|What do I believe about forgiveness?
preference|VOTES|always|I have never missed an election.|Do I go to the polls?
"""

OTHER_LANGUAGES = """
Wogegen bin ich allergisch?|peanuts;penicillin;birch pollen;wasp stings
Welche Sprache lerne ich?|Finnish
Was hilft mir gegen Panik?|cold water
Welches Instrument spiele ich?|cello
Wo arbeite ich?|museum guide
Was macht mir bei der Miete Sorgen?|rent
Welches Auto fahren wir?|an old Volvo
Quel instrument je joue ?|cello
Pourquoi je ne joue plus au tennis ?|tennis
Qu'est-ce qui me calme en cas de panique ?|cold water
Où était mon mariage ?|wedding
¿Qué idioma estoy aprendiendo?|Finnish
¿A qué soy alérgica?|peanuts;penicillin;birch pollen;wasp stings
¿Dónde vivo?|Trieste
¿Qué música me gusta?|Nina Simone
Kiedy byłam na Islandii?|Iceland
Che macchina abbiamo?|an old Volvo
Was trinke ich den ganzen Tag, Oolong?|oolong tea
"""
"""Asked in another language than the fact is in."""

THEIR_OWN = """
health|TAKES|Magnesium|Ich nehme abends Magnesium gegen Krämpfe.|Was nehme ich gegen Krämpfe?
food|LIKES|Apfelstrudel|Apfelstrudel ist mein liebster Nachtisch.|Welchen Nachtisch mag ich am liebsten?
work|DISLIKES|Überstunden|Überstunden machen mich krank.|Was macht mich bei der Arbeit krank?
home|HAS|Kachelofen|Im Wohnzimmer steht ein Kachelofen.|Was steht bei uns im Wohnzimmer?
concern|WORRIES_ABOUT|Prüfung|Vor der mündlichen Prüfung habe ich Angst.|Wovor habe ich Angst?
hobby|PLAYS|pétanque|Le dimanche je joue à la pétanque.|À quoi je joue le dimanche ?
food|DISLIKES|endives|Je déteste les endives.|Quel légume je déteste ?
home|LIVES_NEAR|la mer|De ma fenêtre je vois la mer.|Que vois-je de ma fenêtre ?
goal|WANTS|apprendre l'accordéon|Je veux apprendre l'accordéon.|Quel instrument je veux apprendre ?
family|REMEMBERS|abuela|Mi abuela cocinaba los domingos para todos.|¿Quién cocinaba los domingos?
travel|VISITED|Cádiz|Pasamos el verano en Cádiz.|¿Dónde pasamos el verano?
concern|WORRIES_ABOUT|insomnio|El insomnio me está matando.|¿Por qué no duermo, qué me está matando?
hobby|COLLECTS|francobolli|Colleziono francobolli da bambina.|Che cosa colleziono da bambina?
"""
"""Facts and questions in the same language, which is not English."""
